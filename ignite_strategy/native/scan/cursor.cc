#include "native/scan/cursor.h"

#include <utility>

namespace ignite_strategy {
namespace {

constexpr std::int16_t kResourceClose = 0, kQueryScan = 2000, kScanNextPage = 2001;
// The server released the cursor itself.
constexpr std::int32_t kResourceDoesNotExist = 1011;

}  // namespace

Writer CachePrefix(const std::string& cache) {
  Writer writer;
  writer.Put<std::int32_t>(JavaHash(cache)).Put<std::uint8_t>(0);
  return writer;
}

std::string Query::Describe() const {
  return "scanning cache '" + cache + "'" +
         (partition < 0 ? "" : ", partition " + std::to_string(partition)) +
         (local ? " (only what the node itself holds)" : "");
}

Cursor::Cursor(Connection* connection, const Query& query, const Wait& wait)
    : connection_(connection), doing_(query.Describe()) {
  Writer request = CachePrefix(query.cache);
  request.PutNull().Put(query.page_rows).Put(query.partition).PutBool(query.local);
  request_id_ = connection_->Send(kQueryScan, request, wait);
}

PageData Cursor::Receive(const Wait& wait) {
  Response response = connection_->Receive(wait);
  if (response.request_id != request_id_) {
    throw Error(Code::kDataLoss,
                connection_->endpoint().ToString() + ": an answer to another request while " + doing_);
  }
  if (response.status != 0) throw connection_->ServerError(response, doing_);
  PageData page = Parse(std::move(response));
  finished_ = page.last;
  if (page.last) {
    open_ = false;
  } else {
    request_id_ = connection_->Send(kScanNextPage, Writer().Put(cursor_id_), wait);
  }
  return page;
}

PageData Cursor::Parse(Response response) {
  PageData page;
  page.topology_changed = response.topology_changed;
  page.topology = {response.topology_version, response.topology_minor};
  try {
    Reader reader = response.payload();
    if (!open_) {
      cursor_id_ = reader.Get<std::int64_t>();
      open_ = true;
    }
    const std::size_t rows = reader.Count(2);  // a key and a value have a type code each
    page.rows = static_cast<std::int32_t>(rows);
    page.rows_offset = reader.offset() + response.payload_offset;
    if (reader.left() < 2 * rows + 1) throw Error(Code::kDataLoss, "no flag at its end");
    page.last = response.frame.back() == 0;
  } catch (const Error& error) {
    throw Error(error.code(), connection_->endpoint().ToString() + ": a page cannot be read while " + doing_ +
                                  ": " + error.message());
  }
  page.frame = std::move(response.frame);
  return page;
}

bool Cursor::Close(Millis limit) noexcept {
  try {
    const Wait wait = Wait::For(limit);
    if (connection_->broken()) return false;
    while (connection_->outstanding() > 0) {
      Response response = connection_->Receive(wait);
      if (response.status != 0) continue;
      // The answer to the query itself tells which cursor to close.
      open_ = !Parse(std::move(response)).last;
    }
    if (!open_) return true;
    open_ = false;
    connection_->Call(kResourceClose, Writer().Put(cursor_id_), "closing a cursor", wait);
    return true;
  } catch (const Error& error) {
    return error.server_status() == kResourceDoesNotExist;
  } catch (...) {
    return false;
  }
}

}  // namespace ignite_strategy
