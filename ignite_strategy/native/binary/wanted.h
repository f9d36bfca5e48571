// The wanted parts of a row as a tree: what RowDecoder follows through keys, values and their objects.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_WANTED_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_WANTED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native/binary/columns.h"

namespace ignite_strategy {

constexpr int kMissing = -1;

struct Wanted {
  enum class Kind : std::uint8_t {
    kObject,    // some of its fields are wanted
    kObjects,   // a collection or array of objects, some of whose fields are wanted
    kMap,       // its keys, its values, or both
    kScalar,    // a column
    kArray,     // a column: an array with a type of its own
    kSequence,  // a column: a collection or object array of scalars
  };

  Kind kind = Kind::kObject;
  std::string name;  // of the field
  std::string path;  // of the whole, for messages
  std::vector<std::unique_ptr<Wanted>> children;
  std::vector<int> columns;  // of this and of everything below

  // Of a column.
  int column = kMissing;
  const ColumnSpec* spec = nullptr;
  std::uint8_t type_code = 0;
  DType dtype = DType::kNone;
  std::size_t item_size = 0;  // 0 for strings
  bool repeated = false;      // each item of an outer sequence has one
  // A number that lies in the row as it is: type code, then so many bytes. 0 for everything else.
  std::size_t plain_size = 0;
  bool plain_text = false;  // a string that lies in the row as it is
  bool packed = false;      // an array of numbers that lie one after another as they are

  // An element_spec does not tell an object with arrays from a collection of objects, or from a map: if it
  // may be either of them, how the same columns are then found.
  std::unique_ptr<Wanted> as_objects;
  std::unique_ptr<Wanted> as_map;

  // For each child the index of its value in objects of one type and schema.
  using Positions = std::vector<int>;
  std::map<std::pair<std::int32_t, std::int32_t>, Positions> known;
  std::pair<std::int32_t, std::int32_t> last{0, 0};
  const Positions* positions = nullptr;  // of `last`; most caches hold one schema

  bool is_column() const { return column != kMissing; }
  Wanted* Child(std::string_view child_name) const {
    for (const auto& child : children) {
      if (child->name == child_name) return child.get();
    }
    return nullptr;
  }
  // Whether a scalar, or an item of an array, may have this type.
  bool Takes(std::uint8_t item_code) const;
  // What it is, for messages: "an int", "a collection of UUIDs".
  std::string Expected() const;
};

// The tree of some columns, and the specs that only it knows.
struct WantedTree {
  std::unique_ptr<Wanted> root;
  std::vector<std::unique_ptr<ColumnSpec>> specs;
};

// Throws Error(kInvalidArgument) for columns that contradict each other. `specs` must outlive the tree.
WantedTree MakeWanted(const std::vector<ColumnSpec>& specs);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_WANTED_H_
