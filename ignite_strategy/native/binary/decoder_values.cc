// The values that do not simply lie in the row: NULLs, arrays with typed items, collections, maps, and
// numbers and texts that are computed.
#include <cstring>

#include "native/binary/decoder.h"
#include "native/binary/types.h"

namespace ignite_strategy {
namespace {

// What an empty array of strings points to, and the other empty arrays as well.
constexpr std::string_view kNothing[1] = {};

const char kNullItem[] = " has an item that is NULL";
const char kLeaveOut[] = "; leave the column out with columns=";

// What `read` gives; its errors tell the field.
template <typename Read>
auto OfField(const Wanted& node, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), "field " + node.path + ": " + error.message());
  }
}

}  // namespace

void RowDecoder::Contradiction(std::uint8_t type_code, const Wanted& node) const {
  const TypeInfo* type = FindType(type_code);
  if (type == nullptr) {
    throw Error(Code::kDataLoss,
                "field " + node.path + " has the unknown type code " + std::to_string(type_code));
  }
  if (type->support == Support::kUnsupported) {
    throw Error(Code::kUnimplemented, "field " + node.path + " is " + WithArticle(type_code) +
                                          ", which cannot be a column" + kLeaveOut);
  }
  throw Error(Code::kInvalidArgument, "field " + node.path + " is " + WithArticle(type_code) + " here but " +
                                          node.Expected() + " in the dataset's element_spec");
}

void RowDecoder::NoteNull(const ColumnSpec& spec, const char* what) {
  if (spec.nulls == NullPolicy::kDrop) dropped_ = true;
  if (spec.nulls != NullPolicy::kError || null_error_) return;
  null_error_ =
      Error(Code::kInvalidArgument,
            "field " + spec.Name() + what +
                "; say what a NULL becomes with nulls=\"default\", \"mask\" or \"drop\"" + kLeaveOut);
}

void RowDecoder::SetNull(const Wanted& node, const char* what, std::vector<Slot>& slots) {
  if (!node.is_column()) {
    if (node.kind == Wanted::Kind::kObject) {
      for (const auto& child : node.children) SetNull(*child, what, slots);
      return;
    }
    for (const int column : node.columns) {
      NoteNull(specs_[static_cast<std::size_t>(column)], what);
      slots[static_cast<std::size_t>(column)].data = nullptr;
    }
    return;
  }
  NoteNull(*node.spec, node.repeated ? kNullItem : what);
  if (node.repeated) {
    AddItem(node, {});
  } else {
    slots[static_cast<std::size_t>(node.column)].data = nullptr;
  }
}

void RowDecoder::LocateScalar(Reader& reader, std::uint8_t type_code, const Wanted& node,
                              std::vector<Slot>& slots) {
  if (!node.Takes(type_code)) Contradiction(type_code, node);
  reader.Skip(1);
  if (node.repeated) {
    std::uint8_t own[sizeof(std::int64_t)];
    return AddItem(node, ReadItem(reader, type_code, node, own));
  }
  Slot& slot = slots[static_cast<std::size_t>(node.column)];
  const Item item = ReadItem(reader, type_code, node, slot.own);
  slot.data = item.data;
  slot.count = item.size;
}

void RowDecoder::LocateArray(Reader& reader, std::uint8_t type_code, const Wanted& node,
                             std::vector<Slot>& slots) {
  const TypeInfo* type = FindType(type_code);
  const bool container = type != nullptr && type->support == Support::kSequence;
  const bool typed = type != nullptr && type->support == Support::kArray;
  bool takes = container && node.kind != Wanted::Kind::kArray;
  if (node.kind == Wanted::Kind::kArray) takes = type_code == node.type_code;
  if (node.is_column() && node.spec->declared) {
    takes = container || (typed && DTypeOf(type_code, node.spec->forms) == node.dtype);
  }
  if (!takes) Contradiction(type_code, node);
  reader.Skip(1);
  if (type->layout == Layout::kPacked) return LocatePacked(reader, node, slots);
  if (type->layout == Layout::kObjectArray || type->layout == Layout::kEnumArray) ReadTypeId(reader);
  const std::size_t count = reader.Count(1);
  if (type->layout == Layout::kCollection) reader.Skip(1);
  LocateItems(reader, count, node, slots);
}

void RowDecoder::LocateItems(Reader& reader, std::size_t count, const Wanted& node,
                             std::vector<Slot>& slots) {
  Begin(node);
  for (std::size_t i = 0; i < count; ++i) {
    if (node.kind != Wanted::Kind::kObjects) {
      const auto type_code = reader.Get<std::uint8_t>();
      if (type_code == code::kNull) {
        NoteNull(*node.spec, kNullItem);
        AddItem(node, {});
        continue;
      }
      if (!node.Takes(type_code)) Contradiction(type_code, node);
      std::uint8_t own[sizeof(std::int64_t)];
      AddItem(node, ReadItem(reader, type_code, node, own));
      continue;
    }
    LocateElement(reader, node, slots);
  }
  Finish(node, slots);
}

// One object of a collection: like an object field, but for its columns' items.
void RowDecoder::LocateElement(Reader& reader, const Wanted& node, std::vector<Slot>& slots) {
  if (reader.left() == 0) throw Error(Code::kDataLoss, "the page ends inside " + node.path);
  const std::uint8_t type_code = *reader.at();
  if (type_code == code::kNull) {
    reader.Skip(1);
    for (const auto& child : node.children) SetNull(*child, kNullItem, slots);
  } else if (type_code == code::kObject) {
    LocateObject(ObjectView::Read(reader), node, slots);
  } else if (type_code == code::kWrapped) {
    Reader inside(nullptr, 0);
    const ObjectView object = ObjectView::ReadWrapped(reader, &inside);
    const Within within(this, inside);
    LocateObject(object, node, slots);
  } else if (type_code == code::kHandle) {
    Reader referred = Referred(reader, node);
    LocateElement(referred, node, slots);
  } else {
    Contradiction(type_code, node);
  }
}

void RowDecoder::LocateMap(Reader& reader, const Wanted& node, std::vector<Slot>& slots) {
  reader.Skip(1);
  const std::size_t count = reader.Count(2);
  reader.Skip(1);
  const Wanted* keys = node.Child("keys");
  const Wanted* values = node.Child("values");
  Begin(node);
  for (std::size_t i = 0; i < count; ++i) {
    for (const Wanted* part : {keys, values}) {
      if (part == nullptr) {
        SkipValue(reader);
      } else {
        LocateValue(reader, *part, slots);
      }
    }
  }
  Finish(node, slots);
}

void RowDecoder::Begin(const Wanted& node) {
  for (const int column : node.columns) {
    Items& items = items_[static_cast<std::size_t>(column)];
    items.bytes.clear();
    items.strings.clear();
    items.present.clear();
    items.nulls = false;
  }
}

void RowDecoder::Finish(const Wanted& node, std::vector<Slot>& slots) {
  for (const int column : node.columns) {
    const Items& items = items_[static_cast<std::size_t>(column)];
    Slot& slot = slots[static_cast<std::size_t>(column)];
    slot.count = items.present.size();
    slot.mask = items.nulls ? items.present.data() : nullptr;
    slot.data = !items.strings.empty() ? reinterpret_cast<const std::uint8_t*>(items.strings.data())
                : !items.bytes.empty() ? items.bytes.data()
                                       : reinterpret_cast<const std::uint8_t*>(kNothing);
  }
}

void RowDecoder::AddItem(const Wanted& node, const Item& item) {
  static constexpr std::uint8_t kZeros[sizeof(std::int64_t)] = {};
  Items& items = items_[static_cast<std::size_t>(node.column)];
  items.present.push_back(item.data != nullptr ? 1 : 0);
  items.nulls = items.nulls || item.data == nullptr;
  if (node.dtype == DType::kString) {
    items.strings.emplace_back(reinterpret_cast<const char*>(item.data), item.size);
    return;
  }
  const std::uint8_t* bytes = item.data != nullptr ? item.data : kZeros;
  items.bytes.insert(items.bytes.end(), bytes, bytes + node.item_size);
}

Item RowDecoder::ReadItem(Reader& reader, std::uint8_t type_code, const Wanted& node, std::uint8_t* own) {
  const Forms& forms = node.spec->forms;
  switch (type_code) {
    case code::kString: {
      const std::size_t size = reader.Count(1);
      return {reader.Bytes(size), size};
    }
    case code::kUuid: {
      constexpr std::size_t kSize = 36;
      char* text = texts_.Allocate(kSize);
      FormatUuid(reader.Bytes(16), text);
      return {reinterpret_cast<const std::uint8_t*>(text), kSize};
    }
    case code::kSqlDate: {
      Item millis;
      if (!ReadSqlDate(reader, &millis)) {
        throw Error(
            Code::kUnimplemented,
            "field " + node.path + " is a Java-serialized object, which cannot be a column" + kLeaveOut);
      }
      return millis;
    }
    case code::kDecimal: {
      const std::string text = ReadDecimal(reader);
      if (forms.decimal_float64) {
        const double value = OfField(node, [&] { return DecimalToDouble(text); });
        std::memcpy(own, &value, sizeof value);
        return {own, sizeof value};
      }
      const std::string_view kept = texts_.Keep(text);
      return {reinterpret_cast<const std::uint8_t*>(kept.data()), kept.size()};
    }
    case code::kTimestamp: {
      auto time = reader.Get<std::int64_t>();
      const auto nanos = reader.Get<std::int32_t>();
      if (!forms.timestamp_millis) time = OfField(node, [&] { return TimestampNanos(time, nanos); });
      std::memcpy(own, &time, sizeof time);
      return {own, sizeof time};
    }
    case code::kEnum:
    case code::kBinaryEnum:
      return ReadEnum(reader, node, own);
    default: {
      const std::size_t size = FindType(type_code)->item_size;
      return {reader.Bytes(size), size};
    }
  }
}

Item RowDecoder::ReadEnum(Reader& reader, const Wanted& node, std::uint8_t* own) {
  const std::int32_t type_id = ReadTypeId(reader);
  const auto ordinal = reader.Get<std::int32_t>();
  if (!node.spec->forms.enum_name) {
    std::memcpy(own, &ordinal, sizeof ordinal);
    return {own, sizeof ordinal};
  }
  const TypeMetadata* type = types_->Get(type_id);
  if (type != nullptr) {
    const auto found = type->enum_values.find(ordinal);
    if (found != type->enum_values.end()) {
      const std::string_view kept = texts_.Keep(found->second);
      return {reinterpret_cast<const std::uint8_t*>(kept.data()), kept.size()};
    }
  }
  throw Error(Code::kUnimplemented,
              "field " + node.path + ": the server does not know the name of value " +
                  std::to_string(ordinal) + " of enum " +
                  (type == nullptr ? "type " + std::to_string(type_id) : "'" + type->name + "'") +
                  "; enum=\"ordinal\" reads the number");
}

}  // namespace ignite_strategy
