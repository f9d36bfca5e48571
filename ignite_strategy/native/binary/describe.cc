#include "native/binary/describe.h"

#include <algorithm>
#include <utility>

#include "native/binary/types.h"
#include "native/binary/values.h"

namespace ignite_strategy {
namespace {

constexpr int kMaxDepth = 32;
// References may make a small row endless; more than this of it is not looked at.
constexpr std::size_t kMaxReferredBytes = std::size_t{16} << 20;

// The id of the type of the object at `value`, which is an object or a wrapped one.
std::int32_t TypeIdAt(Reader value) {
  return (*value.at() == code::kObject ? ObjectView::Read(value) : ObjectView::ReadWrapped(value)).type_id();
}

}  // namespace

void Describer::AddRow(Reader& reader) {
  around_.clear();
  referred_bytes_ = 0;
  begin_ = reader.at();
  end_ = begin_ + reader.left();
  Add(reader, key, 0);
  if (reader.left() == 0) throw Error(Code::kDataLoss, "a row is cut off");
  const bool object = Family(*reader.at()) == code::kObject;
  begin_ = reader.at();
  Add(reader, object ? objects[TypeIdAt(reader)] : val, 0);
}

void Describer::Add(Reader& reader, Description& description, int depth) {
  if (reader.left() == 0) throw Error(Code::kDataLoss, "a row is cut off");
  const std::uint8_t type_code = *reader.at();
  if (type_code == code::kNull) {
    ++description.nulls;
    return reader.Skip(1);
  }
  if (type_code == code::kHandle) return AddReferred(reader, description, depth);
  ++description.values;
  description.type_codes.insert(Family(type_code));
  if (depth > kMaxDepth) {
    description.deep = true;
    return SkipValue(reader);
  }
  switch (type_code) {
    case code::kObject:
      return AddObject(ObjectView::Read(reader), description, depth);
    case code::kWrapped: {
      Reader inside(nullptr, 0);
      const ObjectView object = ObjectView::ReadWrapped(reader, &inside);
      const std::uint8_t* begin = std::exchange(begin_, inside.at());
      const std::uint8_t* end = std::exchange(end_, inside.at() + inside.left());
      AddObject(object, description, depth);
      begin_ = begin;
      end_ = end;
      return;
    }
    case code::kObjectArray:
    case code::kCollection:
    case code::kMap:
      return AddItems(reader, type_code, description, depth);
    case code::kSqlDate: {
      Item millis;
      reader.Skip(1);
      if (!ReadSqlDate(reader, &millis)) description.opaque = true;
      return;
    }
    default:
      SkipValue(reader);
  }
}

void Describer::AddItems(Reader& reader, std::uint8_t type_code, Description& description, int depth) {
  reader.Skip(1);
  if (type_code == code::kObjectArray) ReadTypeId(reader);
  const std::size_t count = reader.Count(type_code == code::kMap ? 2 : 1);
  if (type_code != code::kObjectArray) reader.Skip(1);
  for (std::size_t i = 0; i < count; ++i) {
    if (type_code == code::kMap) {
      Add(reader, description.parts["keys"], depth + 1);
      Add(reader, description.parts["values"], depth + 1);
    } else {
      Add(reader, description.parts["items"], depth + 1);
    }
  }
}

void Describer::AddReferred(Reader& reader, Description& description, int depth) {
  const std::uint8_t* here = reader.at();
  reader.Skip(1);
  const auto distance = reader.Get<std::int32_t>();
  if (distance <= 0 || distance > here - begin_) {
    throw Error(Code::kDataLoss, "a reference to a value that is not there");
  }
  const std::uint8_t* target = here - distance;
  if (*target == code::kHandle) throw Error(Code::kDataLoss, "a reference to a reference");
  if (std::find(around_.begin(), around_.end(), target) != around_.end()) {
    description.cyclic = true;
    return;
  }
  Reader referred(target, static_cast<std::size_t>(end_ - target));
  Reader past = referred;
  SkipValue(past);
  referred_bytes_ += past.offset();
  if (referred_bytes_ <= kMaxReferredBytes) Add(referred, description, depth + 1);
}

void Describer::AddObject(const ObjectView& object, Description& description, int depth) {
  const TypeMetadata* type = types_->Get(object.type_id());
  description.types.insert(type == nullptr ? "type " + std::to_string(object.type_id()) : type->name);
  if (type != nullptr) {
    // Also the fields that this object does not have, so that the first row does not decide what the columns
    // are.
    for (const FieldMetadata& field : type->fields) description.fields[field.name].declared = field.type_code;
  }
  const std::vector<std::int32_t> ids = object.FieldIds(*types_);
  around_.push_back(object.data());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // FieldIds may have asked for the metadata again.
    type = types_->Get(object.type_id());
    const FieldMetadata* field = type == nullptr ? nullptr : type->Find(ids[i]);
    if (field == nullptr) {
      description.unnamed_fields = true;
      continue;
    }
    Description& inner = description.fields[field->name];
    inner.declared = field->type_code;
    Reader value = object.Field(i);
    Add(value, inner, depth + 1);
  }
  around_.pop_back();
}

}  // namespace ignite_strategy
