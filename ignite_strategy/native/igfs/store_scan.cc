// Store: looking at many records or blocks at once.
#include <algorithm>
#include <map>

#include "native/igfs/store.h"
#include "native/wire/partition.h"

namespace ignite_strategy {
namespace igfs {
namespace {

namespace op {
constexpr std::int16_t kGet = 1000, kContainsKey = 1011, kSize = 1020, kPartitions = 1101, kScan = 2000,
                       kScanPage = 2001;
}  // namespace op

constexpr std::int32_t kScanPageRows = 1024;
// Of a page of blocks, which come with their bytes: each thread of a server keeps twice that for ever.
constexpr std::uint32_t kBlockPageBytes = 2 << 20;
constexpr std::size_t kQuestionsInFlight = 16;
constexpr std::uint8_t kPrimary = 2, kByteArray = 12, kUuid = 10;

// Ends a cursor that is not read to its end; errors do not matter, the server drops it with the connection.
void AbandonCursor(Connection& connection, std::int64_t cursor, const Wait& wait) noexcept {
  try {
    Writer close;
    close.Put(cursor);
    connection.Call(0, close, "closing a cursor", wait);
  } catch (const Error&) {
  }
}

// Calls `row(Reader&)`, which consumes a key and a value, until it returns false. Returns whether that was
// so.
template <typename Row>
bool ScanRows(Connection& connection, std::int32_t cache, std::int32_t partition, std::int32_t page_rows,
              const std::string& doing, const Wait& wait, Row row) {
  Writer request = CachePrefix(cache);
  request.PutNull().Put(page_rows).Put(partition).PutBool(false);
  Response response = connection.Call(op::kScan, request, doing, wait);
  Reader page = response.payload();
  const auto cursor = page.Get<std::int64_t>();
  for (;;) {
    bool more = true;
    try {
      for (std::size_t rows = page.Count(2); rows > 0 && more; --rows) more = row(page);
    } catch (...) {
      AbandonCursor(connection, cursor, wait);
      throw;
    }
    if (!more) {
      AbandonCursor(connection, cursor, wait);
      return true;
    }
    if (!page.GetBool()) return false;
    Writer next;
    next.Put(cursor);
    response = connection.Call(op::kScanPage, next, doing, wait);
    page = response.payload();
  }
}

}  // namespace

std::int32_t Store::Partitions(Connection& connection, const Wait& wait) {
  Writer request;
  if (connection.Has(static_cast<Feature>(13))) request.PutBool(false);
  request.Put<std::int32_t>(1).Put(tree_id_);
  const Response response = connection.Call(op::kPartitions, request, "locating " + tree_, wait);
  Reader reader = response.payload();
  reader.Skip(12);  // topology version
  std::int32_t partitions = 0;
  for (std::size_t groups = reader.Count(5); groups > 0; --groups) {
    const bool applicable = reader.GetBool();
    for (std::size_t caches = reader.Count(4); caches > 0; --caches) {
      reader.Skip(4);
      if (applicable) reader.Skip(8 * reader.Count(8));
    }
    if (!applicable) continue;
    for (std::size_t nodes = reader.Count(5); nodes > 0; --nodes) {
      reader.TypedUuid();
      for (std::size_t n = reader.Count(4); n > 0; --n)
        partitions = std::max(partitions, GetPartition(reader) + 1);
    }
  }
  // None: no such cache, or one whose partitions the server does not tell (REPLICATED). Then all of it is
  // scanned.
  return partitions;
}

void Store::Scan(Id parent, const std::function<bool(Key&&, Record&&)>& found, const Wait& wait) {
  Run(wait, [&](Connection& connection) {
    const std::int32_t known = partitions_;
    if (known > 0 && ScanPartition(connection, parent, known, found, wait)) return;
    // A directory's header is in its partition: the cache was created anew, with another number of
    // partitions.
    partitions_ = Partitions(connection, wait);
    ScanPartition(connection, parent, partitions_, found, wait);
  });
}

// Returns whether the header of `parent` was among what was found, or `found` had enough.
bool Store::ScanPartition(Connection& connection, Id parent, std::int32_t partitions,
                          const std::function<bool(Key&&, Record&&)>& found, const Wait& wait) {
  const std::int32_t partition = partitions > 0 ? PartitionOf(parent, partitions) : -1;
  bool header = false;
  const bool enough = ScanRows(connection, tree_id_, partition, kScanPageRows,
                               "listing " + target_.ToString(), wait, [&](Reader& page) {
                                 Key key = GetKey(page);
                                 auto record = GetRecord(page);
                                 header = header || key == HeaderKey(parent);
                                 return !record || found(std::move(key), std::move(*record));
                               });
  return enough || header;
}

void Store::ScanAll(const std::function<void()>& begin, const std::function<void(Key&&, Record&&)>& found,
                    const Wait& wait) {
  Run(wait, [&](Connection& connection) {
    begin();
    ScanRows(connection, tree_id_, -1, kScanPageRows, "reading all of " + target_.ToString(), wait,
             [&](Reader& page) {
               Key key = GetKey(page);
               auto record = GetRecord(page);
               if (record) found(std::move(key), std::move(*record));
               return true;
             });
  });
}

void Store::ScanBlocks(const std::function<void(Id, std::uint64_t)>& found, const Wait& wait) {
  Run(wait, [&](Connection& connection) {
    const auto rows = static_cast<std::int32_t>(std::max(1u, kBlockPageBytes / options().block_size));
    ScanRows(connection, blocks_id_, -1, rows, "reading the blocks of " + target_.ToString(), wait,
             [&](Reader& page) {
               const auto key = page.Get<std::uint8_t>();
               const auto content = key == kUuid ? page.Get<Id>() : 0;
               const auto index = key == kUuid ? page.Get<std::uint64_t>() : 0;
               if (key != kUuid || page.Get<std::uint8_t>() != kByteArray)
                 throw Error(Code::kDataLoss, "the cache " + blocks_ + " holds something that is no block");
               page.Skip(page.Count(1));
               found(content, index);
               return true;
             });
  });
}

std::uint64_t Store::CountBlocks(const Wait& wait) {
  return Run(wait, [&](Connection& connection) {
    Writer request = CachePrefix(blocks_id_);
    request.Put<std::int32_t>(1).Put(kPrimary);
    const Response response =
        connection.Call(op::kSize, request, "counting the blocks of " + target_.ToString(), wait);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, response.payload().Get<std::int64_t>()));
  });
}

std::vector<Stored> Store::LookForBlocks(const std::vector<BlockQuestion>& questions, const Wait& wait) {
  return Run(wait, [&](Connection& connection) {
    std::vector<Stored> stored(questions.size(), Stored::kNot);
    std::map<std::int64_t, std::size_t> asked;
    for (std::size_t next = 0, answered = 0; answered < questions.size(); ++answered) {
      const Wait limited = wait.Within(timeouts_.request);
      for (; next < questions.size() && asked.size() < kQuestionsInFlight; ++next) {
        Writer request = CachePrefix(blocks_id_);
        PutBlockKey(request, questions[next].content, questions[next].index);
        asked[connection.Send(questions[next].size > 0 ? op::kGet : op::kContainsKey, request, limited)] =
            next;
      }
      Response response = connection.Receive(limited);
      const auto question = asked.find(response.request_id);
      if (question == asked.end()) throw Error(Code::kDataLoss, "an answer to a request that was not made");
      const std::size_t at = question->second;
      asked.erase(question);
      if (response.status != 0)
        throw connection.ServerError(response, "looking for a block of " + target_.ToString());
      Reader payload = response.payload();
      if (questions[at].size == 0) {
        if (payload.GetBool()) stored[at] = Stored::kWhole;
      } else if (payload.Get<std::uint8_t>() == kByteArray) {
        stored[at] = payload.Count(1) >= questions[at].size ? Stored::kWhole : Stored::kTooShort;
      }
      connection.Recycle(std::move(response.frame));
    }
    return stored;
  });
}

}  // namespace igfs
}  // namespace ignite_strategy
