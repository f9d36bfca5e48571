// Reads records of the tree by their keys, with one request for all of them.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_LOOKUP_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_LOOKUP_H_

#include <optional>
#include <string>
#include <vector>

#include "native/igfs/records.h"
#include "native/wire/connection.h"

namespace ignite_strategy {
namespace igfs {

// What is at `keys`, which differ, in their order; nothing where there is no record. `request` begins with
// the cache, and the transaction if there is one. `doing`: for error messages.
std::vector<std::optional<Record>> GetRecords(Connection& connection, Writer request,
                                              const std::vector<Key>& keys, const std::string& doing,
                                              const Wait& wait);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_LOOKUP_H_
