#include "native/igfs/store.h"

#include <algorithm>
#include <utility>

#include "native/igfs/lookup.h"

namespace ignite_strategy {
namespace igfs {
namespace {

namespace op {
constexpr std::int16_t kPut = 1001, kPutIfAbsent = 1002, kRemoveKey = 1016, kRemoveKeys = 1018,
                       kGetOrCreateWithConfiguration = 1054, kPutBinaryType = 3003;
}  // namespace op

// Properties of a cache configuration, and their values.
namespace property {
constexpr std::int16_t kName = 0, kMode = 1, kAtomicity = 2, kBackups = 3, kWriteSync = 4, kKeys = 401,
                       kLoss = 404;
constexpr std::int32_t kPartitioned = 2, kTransactional = 0, kAtomic = 1, kFullSync = 0, kReadWriteSafe = 2;
}  // namespace property

constexpr std::uint8_t kInTransaction = 2;
constexpr std::uint64_t kBlocksPerRemoval = 256;

}  // namespace

Store::Store(Target target)
    : target_(std::move(target)),
      tree_("igfs-" + target_.file_system + "-tree"),
      blocks_("igfs-" + target_.file_system + "-blocks"),
      tree_id_(JavaHash(tree_)),
      blocks_id_(JavaHash(blocks_)) {}

Lease Store::ConnectTo(const Endpoint& endpoint, const Wait& wait, bool fresh) {
  Pool& pool = Pool::Process();
  Lease lease = fresh ? pool.Open(endpoint, timeouts_, wait) : pool.Acquire(endpoint, timeouts_, wait);
  if (!lease->version().AtLeast(1, 5)) {
    throw Error(Code::kFailedPrecondition,
                endpoint.ToString() + " speaks version " + lease->version().ToString() +
                    " of the thin client protocol: igfs on caches needs its transactions, that is Ignite >= "
                    "2.8; IGFS "
                    "itself, if the node has it, answers at a port of its own (10500)");
  }
  return lease;
}

Lease Store::Connect(const Wait& wait, bool fresh) {
  const std::size_t first = preferred_, count = target_.endpoints.size();
  for (std::size_t i = 0;; ++i) {
    const std::size_t at = (first + i) % count;
    try {
      Lease lease = ConnectTo(target_.endpoints[at], wait, fresh);
      preferred_ = at;
      return lease;
    } catch (const Error& error) {
      const bool absent = error.code() == Code::kUnavailable || error.code() == Code::kDeadlineExceeded;
      if (!absent || i + 1 >= count) throw;
      if (Clock::now() >= wait.deadline) throw;
    }
  }
}

void Store::PutTreePrefix(Writer& writer, std::optional<std::int32_t> transaction) const {
  writer.Put(tree_id_).Put<std::uint8_t>(transaction ? kInTransaction : 0);
  if (transaction) writer.Put(*transaction);
}

void Store::PutBlocksPrefix(Writer& writer) const { writer.Put(blocks_id_).Put<std::uint8_t>(0); }

std::vector<std::optional<Record>> Store::Get(const std::vector<Key>& keys, const Wait& wait) {
  return Run(wait, [&](Connection& connection) {
    return GetRecords(connection, CachePrefix(tree_id_), keys, "reading " + target_.ToString(),
                      wait.Within(timeouts_.request));
  });
}

void Store::Put(const Key& key, const Record& record, const Wait& wait) {
  Writer request = CachePrefix(tree_id_);
  PutKey(request, key);
  PutRecord(request, record);
  Run(wait, [&](Connection& connection) {
    connection.Call(op::kPut, request, "writing " + target_.ToString(), wait);
  });
}

void Store::Remove(const Key& key, const Wait& wait) {
  Writer request = CachePrefix(tree_id_);
  PutKey(request, key);
  Run(wait, [&](Connection& connection) {
    connection.Call(op::kRemoveKey, request, "removing from " + target_.ToString(), wait);
  });
}

void Store::RemoveBlocks(const BlockRange& range, const Wait& wait) {
  for (std::uint64_t first = range.first; first < range.end; first += kBlocksPerRemoval) {
    const std::uint64_t end = std::min(range.end, first + kBlocksPerRemoval);
    Writer request = CachePrefix(blocks_id_);
    request.Put<std::int32_t>(static_cast<std::int32_t>(end - first));
    for (std::uint64_t index = first; index < end; ++index) PutBlockKey(request, range.content, index);
    Run(wait, [&](Connection& connection) {
      connection.Call(op::kRemoveKeys, request, "removing blocks of " + target_.ToString(),
                      wait.Within(timeouts_.request));
    });
  }
}

void Store::CreateCache(Connection& connection, const std::string& name, bool transactional,
                        const Wait& wait) {
  Writer body;
  body.Put<std::int16_t>(transactional ? 7 : 6);
  body.Put(property::kName).PutTypedString(name);
  const auto number = [&](std::int16_t code, std::int32_t value) { body.Put(code).Put(value); };
  number(property::kMode, property::kPartitioned);
  number(property::kAtomicity, transactional ? property::kTransactional : property::kAtomic);
  number(property::kBackups, options().backups);
  number(property::kWriteSync, property::kFullSync);
  number(property::kLoss, property::kReadWriteSafe);
  if (transactional) {
    body.Put(property::kKeys).Put<std::int32_t>(1).PutTypedString(kKeyType).PutTypedString(kAffinityField);
  }
  Writer request;
  request.Put<std::int32_t>(static_cast<std::int32_t>(body.size()))
      .PutBytes(body.bytes().data(), body.size());
  connection.Call(op::kGetOrCreateWithConfiguration, request, "creating the cache " + name, wait);
}

void Store::CheckFormat(Connection& connection, const Wait& wait) {
  Record format;
  format.kind = Kind::kFormat;
  format.id = kFormatVersion;
  Record root;
  root.kind = Kind::kHeader;
  for (const auto& [key, record] :
       {std::pair(Key{kSystem, "format"}, format), std::pair(HeaderKey(kRoot), root)}) {
    Writer request = CachePrefix(tree_id_);
    PutKey(request, key);
    PutRecord(request, record);
    connection.Call(op::kPutIfAbsent, request, "creating the file system " + target_.ToString(), wait);
  }
  const auto present = GetRecords(connection, CachePrefix(tree_id_), {Key{kSystem, "format"}},
                                  "opening the file system " + target_.ToString(), wait)
                           .front();
  if (!present || present->kind != Kind::kFormat || present->id != kFormatVersion) {
    throw Error(Code::kFailedPrecondition, target_.ToString() + ": the cache " + tree_ +
                                               " holds a file system of another version of ignite_strategy");
  }
}

void Store::Create(const Wait& wait, bool again) {
  if (created_ && !again) return;
  Run(wait, [&](Connection& connection) {
    // Creating a cache waits for an exchange of all nodes, which on a busy cluster takes longer than a
    // request does.
    const Wait limited = wait.Within(2 * timeouts_.request);
    connection.Call(op::kPutBinaryType, KeyTypeMetadata(), "registering the key type of igfs", limited);
    CreateCache(connection, tree_, true, limited);
    CreateCache(connection, blocks_, false, limited);
    CheckFormat(connection, limited);
  });
  created_ = true;
}

}  // namespace igfs
}  // namespace ignite_strategy
