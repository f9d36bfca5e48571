#include "native/binary/decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/binary/types.h"

namespace ignite_strategy {
namespace {

// Objects with full footers say their field ids one by one; more versions of a type than this are not
// remembered.
constexpr std::size_t kMaxRememberedSchemas = 1024;
// References make a row larger than its bytes, but not without end.
constexpr std::size_t kMaxReferredBytes = std::size_t{64} << 20;

template <typename T>
std::string Text(Reader& reader) {
  return std::to_string(reader.Get<T>());
}

}  // namespace

std::string DescribeKey(Reader key) {
  try {
    const auto type_code = key.Get<std::uint8_t>();
    switch (type_code) {
      case 1:
        return Text<std::int8_t>(key);
      case 2:
        return Text<std::int16_t>(key);
      case 3:
        return Text<std::int32_t>(key);
      case 4:
        return Text<std::int64_t>(key);
      case 5:
        return Text<float>(key);
      case 6:
        return Text<double>(key);
      case 7:
        return Text<std::uint16_t>(key);
      case 8:
        return key.GetBool() ? "true" : "false";
      case code::kString: {
        const std::size_t size = key.Count(1);
        const std::string text(reinterpret_cast<const char*>(key.Bytes(size)),
                               std::min<std::size_t>(size, 80));
        return "'" + text + (size > 80 ? "..." : "") + "'";
      }
      default:
        return std::string("(") + TypeName(type_code) + ")";
    }
  } catch (const Error&) {
    return "(unreadable)";
  }
}

RowDecoder::RowDecoder(const std::vector<ColumnSpec>& specs, TypeCache* types, std::string where,
                       const ValueType& value_type)
    : specs_(specs),
      wanted_(MakeWanted(specs)),
      key_(wanted_.root->Child("key")),
      val_(wanted_.root->Child("val")),
      types_(types),
      where_(std::move(where)),
      value_type_(value_type),
      items_(specs.size()) {}

void RowDecoder::SetSqlColumns(const std::vector<std::string>& names) { sql_columns_ = names; }

bool RowDecoder::LocateSql(Reader& reader, std::vector<Slot>& slots) {
  const Wanted* row = wanted_.root->Child("val");
  const std::string* column = nullptr;
  dropped_ = false;
  null_error_.reset();
  referred_bytes_ = 0;
  try {
    for (const std::string& name : sql_columns_) {
      column = &name;
      begin_ = reader.at();
      end_ = begin_ + reader.left();
      const Wanted* node = row == nullptr ? nullptr : row->Child(name);
      if (node == nullptr) {
        SkipValue(reader);
      } else {
        LocateValue(reader, *node, slots);
      }
    }
    return Stays();
  } catch (const Error& error) {
    null_error_.reset();
    throw Error(error.code(),
                where_ + ", column " + (column == nullptr ? "" : *column) + ": " + error.message(),
                error.server_status());
  }
}

bool RowDecoder::Locate(Reader& reader, std::vector<Slot>& slots) {
  if (!sql_columns_.empty()) return LocateSql(reader, slots);
  const Reader row = reader;
  const char* part = "key";
  dropped_ = false;
  null_error_.reset();
  referred_bytes_ = 0;
  try {
    LocatePart(key_, reader, slots);
    part = "val";
    if (value_type_.skip_others && !IsWantedType(reader)) {
      SkipValue(reader);
      null_error_.reset();
      return false;
    }
    LocatePart(val_, reader, slots);
    return Stays();
  } catch (const Error& error) {
    null_error_.reset();
    throw Error(error.code(),
                where_ + ", row with key " + DescribeKey(row) + ", in " + part + ": " + error.message(),
                error.server_status());
  }
}

// At the end of a row: whether it stays.
bool RowDecoder::Stays() {
  if (null_error_) {
    const Error error = *std::exchange(null_error_, std::nullopt);
    // The policy of one column drops the row: what the others think of their NULLs does not matter.
    if (!dropped_) throw error;
  }
  return !dropped_;
}

// The key or the value, which references cannot leave; null = it is not wanted.
void RowDecoder::LocatePart(const Wanted* part, Reader& reader, std::vector<Slot>& slots) {
  if (part == nullptr) return SkipValue(reader);
  begin_ = reader.at();
  end_ = begin_ + reader.left();
  LocateValue(reader, *part, slots);
}

Arena RowDecoder::TakeTexts() { return std::exchange(texts_, Arena()); }

// Whether the value at `value` is of the type that is read.
bool RowDecoder::IsWantedType(Reader value) {
  if (value.left() == 0) throw Error(Code::kDataLoss, "the page ends before the value");
  const std::uint8_t type_code = *value.at();
  if (Family(type_code) != Family(value_type_.type_code)) return false;
  if (Family(type_code) != code::kObject) return true;
  const ObjectView object =
      type_code == code::kObject ? ObjectView::Read(value) : ObjectView::ReadWrapped(value);
  return object.type_id() == value_type_.type_id;
}

// Values of several types, where discovery met one, are an error.
void RowDecoder::CheckType(const ObjectView& object, const Wanted& node) {
  if (value_type_.type_code != code::kObject || object.type_id() == value_type_.type_id) return;
  if (node.path != "val") return;
  std::string names[2];
  const std::int32_t ids[2] = {object.type_id(), value_type_.type_id};
  for (int i = 0; i < 2; ++i) {
    const TypeMetadata* type = types_->Get(ids[i]);
    names[i] = type == nullptr ? std::to_string(ids[i]) : "'" + type->name + "'";
  }
  throw Error(Code::kInvalidArgument, "the value is an object of type " + names[0] + ", where only " +
                                          names[1] + " was found before; say with type= which one is read");
}

void RowDecoder::LocateValue(Reader& reader, const Wanted& node, std::vector<Slot>& slots) {
  if (reader.left() == 0) throw Error(Code::kDataLoss, "the page ends before field " + node.path);
  const std::uint8_t type_code = *reader.at();
  if (node.plain_size != 0 && type_code == node.type_code) {
    reader.Skip(1);
    slots[static_cast<std::size_t>(node.column)].data = reader.Bytes(node.plain_size);
    return;
  }
  if (node.plain_text && type_code == code::kString) {
    reader.Skip(1);
    Slot& slot = slots[static_cast<std::size_t>(node.column)];
    slot.count = reader.Count(1);
    slot.data = reader.Bytes(slot.count);
    return;
  }
  if (node.packed && type_code == node.type_code) {
    reader.Skip(1);
    return LocatePacked(reader, node, slots);
  }
  if (node.kind == Wanted::Kind::kObject) {
    if (type_code == code::kObject) return LocateObject(ObjectView::Read(reader), node, slots);
    if (type_code == code::kWrapped) {
      Reader inside(nullptr, 0);
      const ObjectView object = ObjectView::ReadWrapped(reader, &inside);
      const Within within(this, inside);
      return LocateObject(object, node, slots);
    }
  }
  LocateOther(reader, type_code, node, slots);
}

void RowDecoder::LocateOther(Reader& reader, std::uint8_t type_code, const Wanted& node,
                             std::vector<Slot>& slots) {
  if (type_code == code::kNull) {
    reader.Skip(1);
    return SetNull(node, " is NULL", slots);
  }
  if (type_code == code::kHandle) {
    Reader referred = Referred(reader, node);
    return LocateValue(referred, node, slots);
  }
  switch (node.kind) {
    case Wanted::Kind::kScalar:
      return LocateScalar(reader, type_code, node, slots);
    case Wanted::Kind::kArray:
    case Wanted::Kind::kSequence:
    case Wanted::Kind::kObjects:
      return LocateArray(reader, type_code, node, slots);
    case Wanted::Kind::kMap:
      if (type_code != code::kMap) Contradiction(type_code, node);
      return LocateMap(reader, node, slots);
    case Wanted::Kind::kObject:
      if (node.as_map != nullptr && type_code == code::kMap) return LocateMap(reader, *node.as_map, slots);
      if (node.as_objects != nullptr && Family(type_code) == code::kCollection) {
        return LocateArray(reader, type_code, *node.as_objects, slots);
      }
      Contradiction(type_code, node);
  }
}

Reader RowDecoder::Referred(Reader& reader, const Wanted& node) {
  const std::uint8_t* here = reader.at();
  reader.Skip(1);
  const auto distance = reader.Get<std::int32_t>();
  if (distance <= 0 || distance > here - begin_) {
    throw Error(Code::kDataLoss, "field " + node.path + " refers to a value that is not there");
  }
  const std::uint8_t* target = here - distance;
  if (*target == code::kHandle) throw Error(Code::kDataLoss, "field " + node.path + " refers to a reference");
  Reader referred(target, static_cast<std::size_t>(end_ - target));
  Reader past = referred;
  SkipValue(past);
  referred_bytes_ += past.offset();
  if (referred_bytes_ > kMaxReferredBytes) {
    throw Error(Code::kResourceExhausted, "field " + node.path +
                                              ": the row's references stand for more than " +
                                              std::to_string(kMaxReferredBytes >> 20) + " MiB");
  }
  return referred;
}

void RowDecoder::LocateObject(const ObjectView& object, const Wanted& node, std::vector<Slot>& slots) {
  // A full footer may name its fields without any schema id, so only compact ones are looked up by it.
  const bool same = object.compact() && node.positions != nullptr && node.last.first == object.type_id() &&
                    node.last.second == object.schema_id();
  const Wanted::Positions& positions = same ? *node.positions : Resolve(object, const_cast<Wanted&>(node));
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const Wanted& child = *node.children[i];
    const int position = positions[i];
    if (position == kMissing || static_cast<std::size_t>(position) >= object.field_count()) {
      SetNull(child, " is missing (NULL)", slots);
      continue;
    }
    if (child.plain_size != 0) {
      const std::uint8_t* at = object.Find(static_cast<std::size_t>(position), 1 + child.plain_size);
      if (at != nullptr && *at == child.type_code) {
        slots[static_cast<std::size_t>(child.column)].data = at + 1;
        continue;
      }
    }
    Reader value = object.Field(static_cast<std::size_t>(position));
    LocateValue(value, child, slots);
  }
}

const Wanted::Positions& RowDecoder::Resolve(const ObjectView& object, Wanted& node) {
  CheckType(object, node);
  const std::pair<std::int32_t, std::int32_t> schema{object.type_id(), object.schema_id()};
  if (object.compact()) {
    const auto found = node.known.find(schema);
    if (found != node.known.end()) {
      node.positions = &found->second;
      node.last = schema;
      return found->second;
    }
  }
  const std::vector<std::int32_t> ids = object.FieldIds(*types_);
  // The metadata knows how a name became an id; the hash is the default for types it does not know.
  const TypeMetadata* type = ids.empty() ? nullptr : types_->Get(object.type_id());
  if (node.known.size() >= kMaxRememberedSchemas) node.known.clear();
  Wanted::Positions& positions = node.known[schema];
  positions.assign(node.children.size(), kMissing);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    std::int32_t id = JavaLowerHash(node.children[i]->name);
    if (type != nullptr) {
      for (const FieldMetadata& field : type->fields) {
        if (field.name == node.children[i]->name) id = field.id;
      }
    }
    for (std::size_t at = 0; at < ids.size(); ++at) {
      if (ids[at] == id) positions[i] = static_cast<int>(at);
    }
  }
  // Only compact objects find it again by `last`.
  node.positions = object.compact() ? &positions : nullptr;
  node.last = schema;
  return positions;
}

Error RowDecoder::WrongLength(Reader row, const ColumnSpec& spec, std::size_t got, std::int64_t want) const {
  return Error(Code::kInvalidArgument,
               where_ + ", row with key " + DescribeKey(row) + ": array " + spec.Name() + " has " +
                   std::to_string(got) + " items where " + std::to_string(want) +
                   (spec.length >= 0 ? " are declared"
                                     : " were in the batch's first row; give batch_size= to the "
                                       "dataset instead of calling .batch(), or use ragged_batch()"));
}

}  // namespace ignite_strategy
