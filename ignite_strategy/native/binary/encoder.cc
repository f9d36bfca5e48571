#include "native/binary/encoder.h"

#include <cstring>
#include <limits>

namespace ignite_strategy {
namespace {

constexpr std::size_t kHeader = 24;
constexpr std::uint16_t kUserType = 0x01, kHasSchema = 0x02, kOffset1 = 0x08, kOffset2 = 0x10,
                        kCompact = 0x20;

std::int32_t Size(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(Code::kInvalidArgument, "more than 2 GiB");
  }
  return static_cast<std::int32_t>(count);
}

template <typename T>
void Patch(Writer& writer, std::size_t at, T value) {
  std::memcpy(writer.bytes().data() + at, &value, sizeof value);
}

void PutOffset(Writer& writer, std::size_t offset, std::size_t size) {
  if (size == 1) {
    writer.Put(static_cast<std::uint8_t>(offset));
  } else if (size == 2) {
    writer.Put(static_cast<std::uint16_t>(offset));
  } else {
    writer.Put(static_cast<std::uint32_t>(offset));
  }
}

}  // namespace

ObjectType::ObjectType(const std::string& name, const std::vector<std::string>& fields, bool compact_footer)
    : type_id(JavaLowerHash(name)), compact(compact_footer) {
  for (const std::string& field : fields) field_ids.push_back(JavaLowerHash(field));
  schema_id = SchemaId(field_ids);
}

std::int32_t SchemaId(const std::vector<std::int32_t>& field_ids) {
  std::uint32_t hash = 0x811C9DC5;
  for (const std::int32_t id : field_ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 0xFF)) * 0x01000193;
    }
  }
  return static_cast<std::int32_t>(hash);
}

std::int32_t BytesHash(const std::uint8_t* data, std::size_t size) {
  // hash * 31 + byte for each, four at a time: the products of one step do not wait for each other.
  constexpr std::uint32_t k1 = 31, k2 = k1 * 31, k3 = k2 * 31, k4 = k3 * 31;
  const auto* bytes = reinterpret_cast<const std::int8_t*>(data);
  std::uint32_t hash = 1;
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    hash = hash * k4 + static_cast<std::uint32_t>(bytes[i]) * k3 +
           static_cast<std::uint32_t>(bytes[i + 1]) * k2 + static_cast<std::uint32_t>(bytes[i + 2]) * k1 +
           static_cast<std::uint32_t>(bytes[i + 3]);
  }
  for (; i < size; ++i) hash = hash * k1 + static_cast<std::uint32_t>(bytes[i]);
  return static_cast<std::int32_t>(hash);
}

bool IsUtf8(std::string_view text) {
  std::size_t i = 0;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  while (i < text.size()) {
    // Eight plain characters at once.
    if (i + 8 <= text.size()) {
      std::uint64_t word;
      std::memcpy(&word, text.data() + i, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const std::uint8_t lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t more = lead >= 0xC2 && lead < 0xE0   ? 1
                             : lead >= 0xE0 && lead < 0xF0 ? 2
                             : lead >= 0xF0 && lead < 0xF5 ? 3
                                                           : 0;
    if (more == 0 || i + more >= text.size()) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const std::uint8_t second = byte(i + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool beyond = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
    if (overlong || beyond) return false;
    i += more + 1;
  }
  return true;
}

Item Encoder::At(const ValueColumn& column, std::int64_t index) const {
  if (column.texts != nullptr) {
    const std::string_view text = column.texts[index];
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  }
  return {column.items + static_cast<std::size_t>(index) * column.item_size, column.item_size};
}

void Encoder::Write(const ValueColumn& column, std::int64_t row, Writer& writer) {
  if (column.valid != nullptr && column.valid[row] == 0) {
    writer.PutNull();
    return;
  }
  const TypeInfo* type = FindType(column.type_code);
  try {
    if (type->layout == Layout::kObject) {
      WriteObject(column, row, writer);
      return;
    }
    writer.Put(column.type_code);
    switch (type->layout) {
      case Layout::kEnum: {
        writer.Put(column.enum_id);
        const Item ordinal = At(column, row);
        writer.PutBytes(ordinal.data, sizeof(std::int32_t));
        return;
      }
      case Layout::kTypedItems:
      case Layout::kObjectArray:
      case Layout::kEnumArray:
      case Layout::kCollection:
      case Layout::kMap: {
        const std::int64_t begin = column.splits != nullptr ? column.splits[row] : row * column.length;
        const std::int64_t end = column.splits != nullptr ? column.splits[row + 1] : begin + column.length;
        WriteItems(column, begin, end, writer);
        return;
      }
      case Layout::kPacked:
        if (type->item != 0) {  // an array of numbers: its items are together
          const std::int64_t begin = column.splits != nullptr ? column.splits[row] : row * column.length;
          const std::int64_t end = column.splits != nullptr ? column.splits[row + 1] : begin + column.length;
          const auto count = static_cast<std::size_t>(end - begin);
          writer.Put(Size(count))
              .PutBytes(column.items + static_cast<std::size_t>(begin) * column.item_size,
                        count * column.item_size);
          return;
        }
        [[fallthrough]];
      default:
        if (type->writer == nullptr) {
          throw Error(Code::kUnimplemented, WithArticle(column.type_code) + " cannot be written");
        }
        type->writer(writer, At(column, row));
    }
  } catch (const Error& error) {
    if (error.message().compare(0, 7, "column ") == 0) throw;  // an inner one says where already
    throw Error(error.code(), "column " + column.name + ": " + error.message());
  }
}

void Encoder::WriteItems(const ValueColumn& column, std::int64_t begin, std::int64_t end, Writer& writer) {
  const TypeInfo* type = FindType(column.type_code);
  if (type->layout == Layout::kObjectArray) writer.Put<std::int32_t>(-1);  // of java.lang.Object
  if (type->layout == Layout::kEnumArray) writer.Put(column.enum_id);
  writer.Put(Size(static_cast<std::size_t>(end - begin)));
  if (type->layout == Layout::kCollection || type->layout == Layout::kMap) writer.Put(column.kind);
  for (std::int64_t i = begin; i < end; ++i) {
    for (const ValueColumn& part : column.parts) Write(part, i, writer);
  }
}

void Encoder::WriteObject(const ValueColumn& column, std::int64_t row, Writer& writer) {
  const ObjectType& type = *column.object;
  const std::size_t start = writer.size();
  writer.bytes().resize(start + kHeader);
  const std::size_t first = offsets_.size();
  for (const ValueColumn& field : column.parts) {
    offsets_.push_back(writer.size() - start);
    Write(field, row, writer);
  }
  const std::size_t footer = writer.size() - start;
  const std::size_t last = offsets_.size() > first ? offsets_.back() : 0;
  const std::size_t offset_size = last < 0x100 ? 1 : last < 0x10000 ? 2 : 4;
  for (std::size_t i = first; i < offsets_.size(); ++i) {
    if (!type.compact) writer.Put(type.field_ids[i - first]);
    PutOffset(writer, offsets_[i], offset_size);
  }
  offsets_.resize(first);
  std::uint16_t flags = kUserType | kHasSchema;
  if (type.compact) flags |= kCompact;
  if (offset_size == 1) flags |= kOffset1;
  if (offset_size == 2) flags |= kOffset2;
  const std::int32_t size = Size(writer.size() - start);
  const std::int32_t hash = BytesHash(writer.bytes().data() + start + kHeader, footer - kHeader);
  Patch(writer, start, code::kObject);
  Patch<std::uint8_t>(writer, start + 1, 1);
  Patch(writer, start + 2, flags);
  Patch(writer, start + 4, type.type_id);
  Patch(writer, start + 8, hash);
  Patch(writer, start + 12, size);
  Patch(writer, start + 16, type.schema_id);
  Patch(writer, start + 20, static_cast<std::int32_t>(footer));
}

Writer TypeMetadataRequest(const std::string& name, const std::vector<std::pair<std::string, int>>& fields,
                           const std::vector<std::pair<std::string, int>>& enum_values) {
  Writer writer;
  writer.Put(JavaLowerHash(name)).PutTypedString(name).PutNull();  // no affinity key field
  writer.Put(Size(fields.size()));
  std::vector<std::int32_t> ids;
  for (const auto& [field, type_code] : fields) {
    ids.push_back(JavaLowerHash(field));
    writer.PutTypedString(field).Put<std::int32_t>(type_code).Put(ids.back());
  }
  writer.PutBool(!enum_values.empty());
  if (!enum_values.empty()) {
    writer.Put(Size(enum_values.size()));
    for (const auto& [constant, ordinal] : enum_values) {
      writer.PutTypedString(constant).Put<std::int32_t>(ordinal);
    }
    writer.Put<std::int32_t>(0);
    return writer;
  }
  writer.Put<std::int32_t>(1).Put(SchemaId(ids)).Put(Size(ids.size()));
  for (const std::int32_t id : ids) writer.Put(id);
  return writer;
}

}  // namespace ignite_strategy
