#include "native/scan/cursor.h"

#include <algorithm>
#include <utility>

#include "native/scan/sql_request.h"

namespace ignite_strategy {
namespace {

constexpr std::int16_t kResourceClose = 0, kQueryScan = 2000, kScanNextPage = 2001, kSqlNextPage = 2005;
// The server released the cursor itself.
constexpr std::int32_t kResourceDoesNotExist = 1011;

}  // namespace

std::string Query::Describe() const {
  if (sql != nullptr)
    return "running SQL '" + sql->text.substr(0, 80) + (sql->text.size() > 80 ? "..." : "") + "'";
  return "scanning cache '" + cache + "'" +
         (partition < 0 ? "" : ", partition " + std::to_string(partition)) +
         (local ? " (only what the node itself holds)" : "");
}

Cursor::Cursor(Connection* connection, const Query& query, const Wait& wait)
    : connection_(connection), doing_(query.Describe()), sql_(query.sql) {
  if (sql_ != nullptr) {
    SendSql(query, wait);
    return;
  }
  Writer request = CachePrefix(query.cache);
  request.PutNull().Put(query.page_rows).Put(query.partition).PutBool(query.local);
  request_id_ = connection_->Send(kQueryScan, request, wait);
}

void Cursor::SendSql(const Query& query, const Wait& wait) {
  if (query.partitions != nullptr && !connection_->Has(Feature::kQueryPartitions)) {
    throw Error(Code::kUnimplemented,
                connection_->endpoint().ToString() +
                    ": this server cannot run a statement over some partitions, while " + doing_ +
                    "; every_task=True runs it whole in every task");
  }
  const Writer request =
      SqlRequest(*connection_, query.cache, *sql_, {query.page_rows, true, true, query.partitions});
  request_id_ = connection_->Send(kQuerySqlFields, request, wait);
}

// The statement must still have the columns that it had when the dataset was made.
void Cursor::CheckColumns(Reader& reader) const {
  const std::size_t count = reader.Count(1);
  bool same = count == sql_->columns.size() || sql_->columns.empty();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = reader.TypedString().value_or(std::string());
    if (!sql_->columns.empty()) same = same && name == sql_->columns[i];
  }
  if (!same)
    throw Error(Code::kFailedPrecondition, "the statement's columns have changed since the dataset was made");
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
    request_id_ =
        connection_->Send(sql_ != nullptr ? kSqlNextPage : kScanNextPage, Writer().Put(cursor_id_), wait);
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
      page.names_offset = reader.offset() + response.payload_offset;
      if (sql_ != nullptr) CheckColumns(reader);
    }
    // A key and a value have a type code each; a row of a statement has at least one.
    const std::size_t least = sql_ != nullptr ? std::max<std::size_t>(sql_->columns.size(), 1) : 2;
    const std::size_t rows = reader.Count(least);
    page.rows = static_cast<std::int32_t>(rows);
    page.rows_offset = reader.offset() + response.payload_offset;
    if (reader.left() < least * rows + 1) throw Error(Code::kDataLoss, "no flag at its end");
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
