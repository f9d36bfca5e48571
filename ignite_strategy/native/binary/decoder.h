// Finds the wanted values of a row in place. Each object is read through its own schema, so several versions
// and field orders of one type may lie side by side.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_DECODER_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_DECODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "native/binary/columns.h"
#include "native/binary/metadata.h"
#include "native/binary/object.h"
#include "native/binary/values.h"
#include "native/binary/wanted.h"

namespace ignite_strategy {

// The key of a row as it is shown in error messages: "7", "'kitten.png'", or its type if it is an object.
std::string DescribeKey(Reader key);

// Which of several types of values in a cache is read.
struct ValueType {
  std::uint8_t type_code = 0;  // 0 = whatever comes, kObject = objects of `type_id`
  std::int32_t type_id = 0;
  bool skip_others = false;  // else another type is an error
};

class RowDecoder {
 public:
  // `where` begins error messages: "cache 'X' on host:port". Throws Error(kInvalidArgument) for columns that
  // contradict each other. `specs` and `types` must outlive this.
  RowDecoder(const std::vector<ColumnSpec>& specs, TypeCache* types, std::string where,
             const ValueType& value_type = {});

  // Rows are those of an SQL result with these columns, and not keys and values: the column spec {"val",
  // NAME} is the column NAME of it.
  void SetSqlColumns(const std::vector<std::string>& names);

  // Moves past the key and the value at `reader` and fills one slot per column, in memory that the reader
  // reads, in texts() or in this. False if the row is to be left out. Throws Error naming the key and the
  // field for a NULL that the column does not allow, another type than the column has, and bytes that
  // contradict themselves. Slots are good until the next call.
  bool Locate(Reader& reader, std::vector<Slot>& slots);
  // The texts that the rows since the last call needed: they must live as long as the slots' strings.
  Arena TakeTexts();
  // The error for an array of the wrong length in the row whose key is at `row`.
  Error WrongLength(Reader row, const ColumnSpec& spec, std::size_t got, std::int64_t want) const;

 private:
  // The items of one column of the row at hand, where they do not lie one after another.
  struct Items {
    std::vector<std::uint8_t> bytes;
    std::vector<std::string_view> strings;
    std::vector<std::uint8_t> present;
    bool nulls = false;
  };
  // Sets the bytes within which references point, for as long as it lives.
  class Within {
   public:
    Within(RowDecoder* decoder, const Reader& bytes)
        : decoder_(decoder), begin_(decoder->begin_), end_(decoder->end_) {
      decoder->begin_ = bytes.at();
      decoder->end_ = bytes.at() + bytes.left();
    }
    ~Within() {
      decoder_->begin_ = begin_;
      decoder_->end_ = end_;
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    RowDecoder* decoder_;
    const std::uint8_t* begin_;
    const std::uint8_t* end_;
  };

  bool LocateSql(Reader& reader, std::vector<Slot>& slots);
  bool Stays();
  void LocatePart(const Wanted* part, Reader& reader, std::vector<Slot>& slots);
  bool IsWantedType(Reader value);
  void CheckType(const ObjectView& object, const Wanted& node);
  void LocateValue(Reader& reader, const Wanted& node, std::vector<Slot>& slots);
  void LocateOther(Reader& reader, std::uint8_t type_code, const Wanted& node, std::vector<Slot>& slots);
  // The value that the reference at `reader` stands for.
  Reader Referred(Reader& reader, const Wanted& node);
  void LocateObject(const ObjectView& object, const Wanted& node, std::vector<Slot>& slots);
  const Wanted::Positions& Resolve(const ObjectView& object, Wanted& node);

  void LocateScalar(Reader& reader, std::uint8_t type_code, const Wanted& node, std::vector<Slot>& slots);
  // Items that lie one after another as they are, after the type code.
  static void LocatePacked(Reader& reader, const Wanted& node, std::vector<Slot>& slots) {
    Slot& slot = slots[static_cast<std::size_t>(node.column)];
    slot.count = reader.Count(node.item_size);
    slot.data = reader.Bytes(slot.count * node.item_size);
    slot.mask = nullptr;
  }
  void LocateArray(Reader& reader, std::uint8_t type_code, const Wanted& node, std::vector<Slot>& slots);
  void LocateItems(Reader& reader, std::size_t count, const Wanted& node, std::vector<Slot>& slots);
  void LocateElement(Reader& reader, const Wanted& node, std::vector<Slot>& slots);
  void LocateMap(Reader& reader, const Wanted& node, std::vector<Slot>& slots);
  void Begin(const Wanted& node);
  void Finish(const Wanted& node, std::vector<Slot>& slots);
  void AddItem(const Wanted& node, const Item& item);
  void SetNull(const Wanted& node, const char* what, std::vector<Slot>& slots);
  void NoteNull(const ColumnSpec& spec, const char* what);
  // The value after its type code as an item of the column; `own` is where a number may be put.
  Item ReadItem(Reader& reader, std::uint8_t type_code, const Wanted& node, std::uint8_t* own);
  Item ReadEnum(Reader& reader, const Wanted& node, std::uint8_t* own);
  [[noreturn]] void Contradiction(std::uint8_t type_code, const Wanted& node) const;

  const std::vector<ColumnSpec>& specs_;
  WantedTree wanted_;
  const Wanted* key_;
  const Wanted* val_;
  TypeCache* types_;
  std::string where_;
  std::vector<std::string> sql_columns_;
  ValueType value_type_;
  std::vector<Items> items_;  // per column
  Arena texts_;

  // Of the row at hand.
  bool dropped_ = false;
  std::optional<Error> null_error_;
  const std::uint8_t* begin_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  std::size_t referred_bytes_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_DECODER_H_
