#include "native/igfs/lookup.h"

#include <algorithm>

namespace ignite_strategy {
namespace igfs {
namespace {

namespace op {
constexpr std::int16_t kGet = 1000, kGetAll = 1003;
}  // namespace op

// Of a key and a record.
constexpr std::size_t kLeastEntryBytes = 2;

}  // namespace

std::vector<std::optional<Record>> GetRecords(Connection& connection, Writer request,
                                              const std::vector<Key>& keys, const std::string& doing,
                                              const Wait& wait) {
  std::vector<std::optional<Record>> records(keys.size());
  if (keys.size() == 1) {  // cheaper for the server
    PutKey(request, keys.front());
    const Response response = connection.Call(op::kGet, request, doing, wait);
    Reader payload = response.payload();
    records.front() = GetRecord(payload);
    return records;
  }
  request.Put(static_cast<std::int32_t>(keys.size()));
  for (const Key& key : keys) PutKey(request, key);
  const Response response = connection.Call(op::kGetAll, request, doing, wait);
  Reader payload = response.payload();
  for (std::size_t left = payload.Count(kLeastEntryBytes); left > 0; --left) {
    const Key key = GetKey(payload);
    const auto asked = std::find(keys.begin(), keys.end(), key);
    if (asked == keys.end()) throw Error(Code::kDataLoss, doing + ": the server answered with another key");
    records[static_cast<std::size_t>(asked - keys.begin())] = GetRecord(payload);
  }
  return records;
}

}  // namespace igfs
}  // namespace ignite_strategy
