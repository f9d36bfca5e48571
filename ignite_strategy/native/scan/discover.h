// Everything a server can tell about the types of a cache: its query entities, the fields of their types, and
// a sample.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_DISCOVER_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_DISCOVER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "native/binary/metadata.h"
#include "native/scan/sample.h"

namespace ignite_strategy {

// One column of a table as it is now, after ALTER TABLE: the configuration has it as it was created.
struct TableColumn {
  std::string value_type;  // of the table
  std::string name;
  std::string java_type;
};

struct EntityField {
  std::string name;
  std::string java_type;  // "java.lang.Long"
  bool is_key = false;
};

// How SQL sees a cache: a table, or annotated classes.
struct QueryEntity {
  std::string key_type;
  std::string value_type;
  std::string key_field;    // the one column that is the key itself; may be empty
  std::string value_field;  // the one column that is the value itself; may be empty
  std::vector<EntityField> fields;
  std::map<std::string, std::string> aliases;  // field -> column
};

struct CacheFacts {
  std::vector<QueryEntity> entities;
  std::vector<TableColumn> columns;  // empty if the server does not say
  // By name: of the entities' keys and values and of the type asked for, as far as they exist.
  std::map<std::string, TypeMetadata> types;
  std::int32_t partitions = 0;
  Sample sample;
};

// The query entities in the response of CACHE_GET_CONFIGURATION.
std::vector<QueryEntity> ParseQueryEntities(Reader& reader, const Version& version);

// `type` is a type of values to ask for too, "" = none. `everywhere` looks into every partition, not only
// some. Throws Error(kNotFound) naming the caches there are if this one does not exist.
CacheFacts Discover(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache, bool local,
                    const std::string& type, bool everywhere, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_DISCOVER_H_
