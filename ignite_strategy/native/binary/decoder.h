// Finds the wanted values of a row in place. Each object is read through its own schema, so several versions
// and field orders of one type may lie side by side.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_DECODER_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_DECODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "native/binary/columns.h"
#include "native/binary/metadata.h"
#include "native/binary/object.h"

namespace ignite_strategy {

// The key of a row as it is shown in error messages: "7", "'kitten.png'", or its type if it is an object.
std::string DescribeKey(Reader key);

class RowDecoder {
 public:
  // `where` begins error messages: "cache 'X' on host:port". Throws Error(kInvalidArgument) for columns that
  // contradict each other. `types` must outlive this.
  RowDecoder(const std::vector<ColumnSpec>& specs, TypeCache* types, std::string where);
  ~RowDecoder();

  // Moves past the key and the value at `reader` and fills one slot per column, in memory that the reader
  // reads. Throws Error naming the key and the field for a NULL, a missing field, another type than the
  // column has, and bytes that contradict themselves.
  void Locate(Reader& reader, std::vector<Slot>& slots);
  // The error for an array of the wrong length in the row whose key is at `row`.
  Error WrongLength(Reader row, const ColumnSpec& spec, std::size_t got, std::int64_t want) const;

 private:
  struct Node;
  void LocateValue(Reader& reader, Node& node, std::vector<Slot>& slots);
  void LocateObject(const ObjectView& object, Node& node, std::vector<Slot>& slots);
  void Resolve(const ObjectView& object, Node& node);

  std::unique_ptr<Node> root_;
  TypeCache* types_;
  std::string where_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_DECODER_H_
