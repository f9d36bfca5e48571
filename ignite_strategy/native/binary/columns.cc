#include "native/binary/columns.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ignite_strategy {
namespace {

constexpr std::size_t kAlignment = 64;

template <std::size_t size>
void Store(Buffer& buffer, const std::uint8_t* value) {
  std::memcpy(buffer.Extend(size), value, size);
}

// A bool that is neither 0 nor 1 is undefined behaviour in whoever uses it; the bytes come from outside.
void StoreBools(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] != 0 ? 1 : 0;
}

}  // namespace

std::string ColumnSpec::Name() const {
  std::string name;
  for (const std::string& part : path) name += (name.empty() ? "" : ".") + part;
  return name;
}

void Buffer::Free(void* data) { std::free(data); }

void Buffer::Reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* fresh = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, rounded));
  if (fresh == nullptr) throw std::bad_alloc();
  if (size_ != 0) std::memcpy(fresh, data_.get(), size_);
  data_.reset(fresh);
  capacity_ = rounded;
}

BatchBuilder::BatchBuilder(const std::vector<ColumnSpec>& specs, std::size_t rows, std::size_t bytes,
                           std::size_t batch)
    : specs_(specs),
      columns_(specs.size()),
      lengths_(specs.size(), -1),
      first_rows_(std::max<std::size_t>(rows, 1)),
      first_bytes_(bytes),
      batch_(batch),
      next_batch_(batch) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ColumnSpec& spec = specs[i];
    columns_[i].dtype = spec.dtype();
    columns_[i].masked = spec.masked();
    lengths_[i] = spec.length;
    (spec.is_array() ? arrays_ : scalars_).push_back(i);
    if (spec.is_array() && !spec.ragged()) dense_.push_back(i);
    if (spec.is_array() && spec.length < 0 && spec.layout == ArrayLayout::kUniform) uniform_.push_back(i);
    if (spec.masked()) masked_.push_back(i);
    if (spec.ragged()) {
      columns_[i].splits.reserve(first_rows_ + 1);
      columns_[i].splits.push_back(0);
    } else if (columns_[i].dtype == DType::kString) {
      columns_[i].strings.reserve(first_rows_);
    } else if (!spec.is_array()) {
      columns_[i].data.Reserve(first_rows_ * ItemSize(columns_[i].dtype));
    }
  }
}

// A NULL is as long as its column says, else empty.
std::size_t BatchBuilder::Items(std::size_t column, const Slot& slot) const {
  if (slot.data != nullptr) return slot.count;
  return static_cast<std::size_t>(std::max<std::int64_t>(specs_[column].length, 0));
}

bool BatchBuilder::AreAsLong(const std::vector<std::size_t>& columns, const std::vector<Slot>& row) const {
  for (const std::size_t i : columns) {
    // Of one that declares its length, another one is an error and not a reason to begin anew.
    if (specs_[i].length < 0 && static_cast<std::int64_t>(Items(i, row[i])) != lengths_[i]) return false;
  }
  return true;
}

int BatchBuilder::Append(const std::vector<Slot>& row) {
  for (const std::size_t i : dense_) {
    const auto items = static_cast<std::int64_t>(Items(i, row[i]));
    if (lengths_[i] < 0) lengths_[i] = items;
    if (items != lengths_[i]) return static_cast<int>(i);
  }
  for (const std::size_t i : scalars_) AppendScalar(columns_[i], row[i]);
  for (const std::size_t i : arrays_) AppendArray(i, row[i]);
  for (const std::size_t i : masked_) AppendMask(i, row[i]);
  if (rows_ == next_batch_) next_batch_ += batch_;
  ++rows_;
  return -1;
}

void BatchBuilder::AppendScalar(Column& column, const Slot& slot) {
  static constexpr std::uint8_t kZeros[8] = {};
  const std::uint8_t* value = slot.data != nullptr ? slot.data : kZeros;
  switch (column.dtype) {
    case DType::kInt64:
    case DType::kFloat64:
      return Store<8>(column.data, value);
    case DType::kInt32:
    case DType::kFloat32:
      return Store<4>(column.data, value);
    case DType::kInt16:
    case DType::kUint16:
      return Store<2>(column.data, value);
    case DType::kInt8:
      return Store<1>(column.data, value);
    case DType::kBool:
      return StoreBools(column.data.Extend(1), value, 1);
    case DType::kString:
      column.strings.emplace_back(reinterpret_cast<const char*>(value),
                                  slot.data != nullptr ? slot.count : 0);
      return;
    case DType::kNone:
      return;
  }
}

void BatchBuilder::AppendArray(std::size_t i, const Slot& slot) {
  Column& column = columns_[i];
  const bool ragged = specs_[i].ragged();
  const std::size_t count = Items(i, slot);
  const std::size_t item_size = ItemSize(column.dtype);
  if (ragged) column.splits.push_back(column.splits.back() + static_cast<std::int64_t>(count));
  if (column.dtype == DType::kString) {
    if (slot.data == nullptr) {
      column.strings.resize(column.strings.size() + count);
    } else {
      const auto* items = reinterpret_cast<const std::string_view*>(slot.data);
      column.strings.insert(column.strings.end(), items, items + count);
    }
    return;
  }
  if (column.lent != nullptr) Own(column);
  // A batch of one row: whoever takes it may not need a copy.
  const bool whole = rows_ == 0 && first_rows_ == 1 && column.data.size() == 0 && slot.data != nullptr;
  if (whole && count * item_size >= kLargeArray && column.dtype != DType::kBool) {
    column.lent = slot.data;
    column.lent_bytes = count * item_size;
    return;
  }
  // How much a page of dense arrays takes is known with the first row.
  if (rows_ == 0 && !ragged) column.data.Reserve(std::min(first_rows_ * count * item_size, first_bytes_));
  std::uint8_t* to = column.data.Extend(count * item_size);
  if (count == 0) return;
  if (slot.data == nullptr) {
    std::memset(to, 0, count * item_size);
  } else if (column.dtype == DType::kBool) {
    StoreBools(to, slot.data, count);
  } else {
    std::memcpy(to, slot.data, count * item_size);
  }
}

void BatchBuilder::Own(Column& column) {
  if (column.lent == nullptr) return;
  std::memcpy(column.data.Extend(column.lent_bytes), column.lent, column.lent_bytes);
  column.lent = nullptr;
}

void BatchBuilder::AppendMask(std::size_t i, const Slot& slot) {
  const std::size_t count = specs_[i].item_mask ? Items(i, slot) : 1;
  std::uint8_t* to = columns_[i].mask.Extend(count);
  if (count == 0) return;
  if (specs_[i].item_mask && slot.data != nullptr && slot.mask != nullptr) {
    std::memcpy(to, slot.mask, count);
  } else {
    std::memset(to, slot.data != nullptr ? 1 : 0, count);
  }
}

// Makes a ragged column dense.
void BatchBuilder::Pad(std::size_t i) {
  Column& column = columns_[i];
  const std::vector<std::int64_t> splits = std::move(column.splits);
  column.splits.clear();
  std::int64_t longest = 0;
  for (std::size_t row = 0; row < rows_; ++row) longest = std::max(longest, splits[row + 1] - splits[row]);
  column.shape = Shape({longest});
  const auto each = static_cast<std::size_t>(longest);
  const auto spread = [&](Buffer& values, std::size_t item_size) {
    Buffer dense;
    const std::size_t bytes = rows_ * each * item_size;
    if (bytes > 0) std::memset(dense.Extend(bytes), 0, bytes);
    for (std::size_t row = 0; row < rows_; ++row) {
      const auto first = static_cast<std::size_t>(splits[row]);
      const auto count = static_cast<std::size_t>(splits[row + 1]) - first;
      if (count == 0) continue;
      std::memcpy(dense.data() + row * each * item_size, values.data() + first * item_size,
                  count * item_size);
    }
    values = std::move(dense);
  };
  if (column.masked && specs_[i].item_mask) spread(column.mask, 1);
  if (column.dtype != DType::kString) return spread(column.data, ItemSize(column.dtype));
  std::vector<std::string_view> dense(rows_ * each);
  for (std::size_t row = 0; row < rows_; ++row) {
    std::copy(column.strings.begin() + splits[row], column.strings.begin() + splits[row + 1],
              dense.begin() + static_cast<std::ptrdiff_t>(row * each));
  }
  column.strings = std::move(dense);
}

BatchBuilder BatchBuilder::SplitOff(std::size_t first) {
  for (Column& column : columns_) Own(column);
  BatchBuilder rest(specs_, rows_ - first, first_bytes_, batch_);
  const auto move_bytes = [](Buffer& from, std::size_t at, Buffer& to) {
    const std::size_t bytes = from.size() - std::min(at, from.size());
    if (bytes > 0) std::memcpy(to.Extend(bytes), from.data() + at, bytes);
    from.Truncate(at);
  };
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    Column& to = rest.columns_[i];
    std::size_t item = first;  // the first one that moves
    if (specs_[i].ragged()) {
      item = static_cast<std::size_t>(column.splits[first]);
      for (std::size_t row = first + 1; row <= rows_; ++row)
        to.splits.push_back(column.splits[row] - column.splits[first]);
      column.splits.resize(first + 1);
    } else if (specs_[i].is_array()) {
      item = first * static_cast<std::size_t>(std::max<std::int64_t>(lengths_[i], 0));
      rest.lengths_[i] = lengths_[i];
    }
    if (column.dtype == DType::kString) {
      const auto at = column.strings.begin() + static_cast<std::ptrdiff_t>(item);
      to.strings.assign(at, column.strings.end());
      column.strings.erase(at, column.strings.end());
    } else {
      move_bytes(column.data, item * ItemSize(column.dtype), to.data);
    }
    if (column.masked) move_bytes(column.mask, specs_[i].item_mask ? item : first, to.mask);
  }
  rest.rows_ = rows_ - first;
  rows_ = first;
  return rest;
}

// {rows, ...}, or by batches.
std::vector<std::int64_t> BatchBuilder::Shape(std::vector<std::int64_t> each) const {
  std::vector<std::int64_t> shape;
  if (batch_ != 0 && (rows_ >= batch_ || rows_ == 0)) {
    shape = {static_cast<std::int64_t>(rows_ / batch_), static_cast<std::int64_t>(batch_)};
  } else {
    if (batch_ != 0) shape.push_back(1);
    shape.push_back(static_cast<std::int64_t>(rows_));
  }
  shape.insert(shape.end(), each.begin(), each.end());
  return shape;
}

std::vector<Column> BatchBuilder::Finish(bool lend) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    if (!lend || specs_[i].padded()) Own(column);
    if (specs_[i].ragged() && specs_[i].padded()) {
      Pad(i);
    } else if (specs_[i].ragged()) {
      column.shape = {column.splits.back()};
    } else if (specs_[i].is_array()) {
      column.shape = Shape({std::max<std::int64_t>(lengths_[i], 0)});
    } else {
      column.shape = Shape({});
    }
    if (column.masked) {
      column.mask_shape = specs_[i].item_mask ? column.shape : Shape({});
    }
  }
  rows_ = 0;
  return std::move(columns_);
}

}  // namespace ignite_strategy
