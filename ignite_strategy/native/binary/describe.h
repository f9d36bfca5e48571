// What rows look like: their types and, through each object's own schema, their fields. Schema discovery
// builds on it.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_DESCRIBE_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_DESCRIBE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "native/binary/metadata.h"
#include "native/binary/object.h"

namespace ignite_strategy {

// All values met in one place of the rows.
struct Description {
  std::set<std::uint8_t> type_codes;  // of values that are not NULL; wrapped objects count as objects
  std::int64_t values = 0;            // not NULL
  std::int64_t nulls = 0;
  std::uint8_t declared = 0;    // the code that the type's metadata names; 0 = none
  std::set<std::string> types;  // names of the objects' types
  std::map<std::string, Description> fields;
  bool unnamed_fields = false;  // fields whose names nobody knows
};

class Describer {
 public:
  explicit Describer(TypeCache* types) : types_(types) {}
  // Adds the key and the value at `reader` and moves past them.
  void AddRow(Reader& reader);

  Description key;
  Description val;

 private:
  void Add(Reader& reader, Description& description, int depth);
  void AddObject(const ObjectView& object, Description& description, int depth);

  TypeCache* types_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_DESCRIBE_H_
