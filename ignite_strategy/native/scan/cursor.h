// One scan query on one connection: its pages in order, never more than one request outstanding.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_CURSOR_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_CURSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/scan/config.h"
#include "native/scan/topology.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

// The rows of one response.
struct PageData {
  Frame frame;
  std::size_t rows_offset = 0;  // of the first key in the frame
  std::int32_t rows = 0;
  bool last = false;             // the server has released the cursor
  std::size_t names_offset = 0;  // of a statement's columns, in its first page
  bool topology_changed = false;
  TopologyVersion topology;  // if it has changed

  // The keys and values, without the flag that ends the page.
  Reader Rows() const { return Reader(frame.data() + rows_offset, frame.size() - rows_offset - 1); }
};

struct Query {
  std::string cache;
  std::int32_t partition = -1;  // -1 = all
  bool local = false;
  std::int32_t page_rows = 1024;
  // An SQL query instead of a scan, over `partitions` if there are any.
  const SqlQuery* sql = nullptr;
  const Partitions* partitions = nullptr;

  std::string Describe() const;  // "scanning cache 'X', partition 3"
};

class Cursor {
 public:
  // Sends the query. `connection` must outlive this.
  Cursor(Connection* connection, const Query& query, const Wait& wait);

  // The page asked for. If it is not the last one, the next is asked for before this returns.
  PageData Receive(const Wait& wait);
  // A page was received that is the last one.
  bool finished() const { return finished_; }
  // Takes the outstanding answer and closes the cursor at the server, within `limit`. False if the connection
  // cannot be used again.
  bool Close(Millis limit) noexcept;

 private:
  PageData Parse(Response response);
  void SendSql(const Query& query, const Wait& wait);
  void CheckColumns(Reader& reader) const;

  Connection* connection_;
  std::string doing_;
  const SqlQuery* sql_;
  std::int64_t request_id_ = 0;
  std::int64_t cursor_id_ = 0;
  bool open_ = false;  // the server holds a cursor for us
  bool finished_ = false;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_CURSOR_H_
