// What rows look like: their types and, through each object's own schema, their fields. Schema discovery
// builds on it.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_DESCRIBE_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_DESCRIBE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "native/binary/metadata.h"
#include "native/binary/object.h"

namespace ignite_strategy {

// All values met in one place of the rows.
struct Description {
  std::set<std::uint8_t> type_codes;  // of values that are not NULL, each by its Family
  std::int64_t values = 0;            // not NULL
  std::int64_t nulls = 0;
  std::uint8_t declared = 0;    // the code that the type's metadata names; 0 = none
  std::set<std::string> types;  // names of the objects' types
  std::map<std::string, Description> fields;
  // "items" of collections and object arrays, "keys" and "values" of maps.
  std::map<std::string, Description> parts;
  bool unnamed_fields = false;  // fields whose names nobody knows
  bool opaque = false;          // a Java-serialized object of another class than java.sql.Date
  bool deep = false;            // nested further than is looked at
  bool cyclic = false;          // an object that contains itself
};

class Describer {
 public:
  explicit Describer(TypeCache* types) : types_(types) {}
  // Adds the key and the value at `reader` and moves past them.
  void AddRow(Reader& reader);

  Description key;
  Description val;                              // values that are no objects
  std::map<std::int32_t, Description> objects;  // values that are, by their types' ids

 private:
  void Add(Reader& reader, Description& description, int depth);
  void AddItems(Reader& reader, std::uint8_t type_code, Description& description, int depth);
  void AddReferred(Reader& reader, Description& description, int depth);
  void AddObject(const ObjectView& object, Description& description, int depth);

  TypeCache* types_;
  // The bytes within which references point, and the objects around the value at hand.
  const std::uint8_t* begin_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  std::vector<const std::uint8_t*> around_;
  std::size_t referred_bytes_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_DESCRIBE_H_
