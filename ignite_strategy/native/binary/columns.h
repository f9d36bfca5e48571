// Columns under construction: dense fixed-size values, strings, and arrays either dense or ragged.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_COLUMNS_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "native/binary/types.h"

namespace ignite_strategy {

// What becomes of an array whose length the column does not declare.
enum class ArrayLayout : std::uint8_t {
  kUniform,  // dense: a batch ends where the length changes
  kDense,    // dense: another length than that of the batch's first row is an error
  kRagged,   // values of all rows one after another, plus row splits
  kPadded,   // dense, as long as the longest of the batch: zeros or "" follow shorter ones
};

// What becomes of a NULL.
enum class NullPolicy : std::uint8_t {
  kError,    // an error that names key and field
  kDefault,  // 0, false, "" or an empty array; zeros where the length is declared
  kMask,     // the same, and a second column says which values are there
  kDrop,     // the row is left out
};

// One wanted column.
struct ColumnSpec {
  std::vector<std::string> path;  // {"val", "metadata", "label"}
  std::uint8_t type_code = 0;     // a scalar or array type of the table in types.h
  std::int64_t length = -1;       // an array's declared length; -1 = any
  ArrayLayout layout = ArrayLayout::kUniform;
  // So many parts of the path lead to a collection, object array or map, each of whose items has one
  // `type_code`; 0 = there is none on the way.
  std::uint8_t repeated = 0;
  bool map = false;       // it is a map, and the next part of the path is "keys" or "values"
  bool declared = false;  // by an element_spec: any type with this dtype and shape will do
  NullPolicy nulls = NullPolicy::kError;
  // A mask has an entry for each item of an array, which can be NULL one by one, and not one for each row.
  bool item_mask = false;
  Forms forms;

  std::string Name() const;  // "val.metadata.label"
  const TypeInfo& type() const { return *FindType(type_code); }
  DType dtype() const { return DTypeOf(type_code, forms); }
  bool is_array() const { return repeated != 0 || type().support == Support::kArray; }
  // Values and row splits are collected; padding is added when the batch is complete.
  bool ragged() const { return is_array() && length < 0 && (layout == ArrayLayout::kRagged || padded()); }
  bool padded() const { return layout == ArrayLayout::kPadded; }
  bool masked() const { return nulls == NullPolicy::kMask; }
};

// Memory aligned as TensorFlow wants it, so that tensors take it over instead of copying it.
class Buffer {
 public:
  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  void Reserve(std::size_t bytes);
  // Grows by `bytes`, at least doubling when memory is short; returns where they are.
  std::uint8_t* Extend(std::size_t bytes) {
    if (size_ + bytes > capacity_) Reserve(std::max(size_ + bytes, capacity_ * 2));
    std::uint8_t* at = data_.get() + size_;
    size_ += bytes;
    return at;
  }
  // Leaves the first `bytes` of them.
  void Truncate(std::size_t bytes) { size_ = std::min(size_, bytes); }
  std::uint8_t* Release() { return data_.release(); }
  static void Free(void* data);

 private:
  struct Deleter {
    void operator()(std::uint8_t* data) const { Free(data); }
  };
  std::unique_ptr<std::uint8_t, Deleter> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// One finished column of a batch.
struct Column {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;  // {rows}, {rows, length}, or {values} of a ragged column
  Buffer data;                      // fixed-size values
  // Instead of `data`: the same, where they came from, in memory that the batch keeps.
  const std::uint8_t* lent = nullptr;
  std::size_t lent_bytes = 0;
  std::vector<std::string_view> strings;  // of a string column, in memory that the batch keeps
  std::vector<std::int64_t> splits;       // rows + 1 of them, of a ragged column
  bool masked = false;
  std::vector<std::int64_t> mask_shape;  // that of the values, or {rows} where items cannot be NULL
  Buffer mask;                           // bools: which values are there
};

// Where one row's value of a column is: bytes of a scalar or string, or items of an array. For an array of
// strings `data` points to std::string_views.
struct Slot {
  const std::uint8_t* data = nullptr;  // null for a NULL
  std::size_t count = 0;               // bytes of a string, items of an array
  const std::uint8_t* mask = nullptr;  // of an array's items: 0 = NULL; null = all are there
  std::uint8_t own[8] = {};            // a number that is not in the row as it is
};

// Bytes of an array that are worth not to be copied.
constexpr std::size_t kLargeArray = 64 << 10;

// Collects the rows of one batch.
class BatchBuilder {
 public:
  // `rows` is how many rows memory is taken for at first, `bytes` how much of it for arrays at the most. With
  // `batch`, whole batches of so many rows are collected, and columns have the shape [batches, batch, ...]
  // (one batch of fewer rows if there are fewer).
  BatchBuilder(const std::vector<ColumnSpec>& specs, std::size_t rows, std::size_t bytes,
               std::size_t batch = 0);
  // False if an array has another length than the rows so far, in a column that ends them there.
  bool Fits(const std::vector<Slot>& row) const {
    return rows_ == 0 || ((uniform_.empty() || AreAsLong(uniform_, row)) &&
                          (rows_ != next_batch_ || AreAsLong(dense_, row)));
  }
  // Returns the index of the first column whose array length is an error, or -1 and the row is in.
  int Append(const std::vector<Slot>& row);
  std::size_t rows() const { return rows_; }
  // The length a dense array column has so far, -1 before its first row.
  std::int64_t length(std::size_t column) const { return lengths_[column]; }
  // Moves the rows from `first` on into a builder of their own.
  BatchBuilder SplitOff(std::size_t first);
  // `lend`: a large array that is a whole column may be left where it is.
  std::vector<Column> Finish(bool lend = false);

 private:
  void Pad(std::size_t column);
  static void Own(Column& column);
  std::vector<std::int64_t> Shape(std::vector<std::int64_t> each) const;
  void AppendScalar(Column& column, const Slot& slot);
  void AppendArray(std::size_t column, const Slot& slot);
  void AppendMask(std::size_t column, const Slot& slot);
  std::size_t Items(std::size_t column, const Slot& slot) const;
  bool AreAsLong(const std::vector<std::size_t>& columns, const std::vector<Slot>& row) const;

  const std::vector<ColumnSpec>& specs_;
  std::vector<Column> columns_;
  std::vector<std::int64_t> lengths_;
  // What the specs say, ready for each row.
  std::vector<std::size_t> scalars_;
  std::vector<std::size_t> arrays_;
  std::vector<std::size_t> dense_;    // arrays whose rows have one length
  std::vector<std::size_t> uniform_;  // those that end the batch where it changes
  std::vector<std::size_t> masked_;
  std::size_t first_rows_;
  std::size_t first_bytes_;
  std::size_t batch_;
  std::size_t next_batch_;  // the row that the batch after this one begins with; 0 without batches
  std::size_t rows_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_COLUMNS_H_
