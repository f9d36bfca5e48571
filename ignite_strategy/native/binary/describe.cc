#include "native/binary/describe.h"

#include "native/binary/types.h"

namespace ignite_strategy {
namespace {

constexpr int kMaxDepth = 32;

}  // namespace

void Describer::AddRow(Reader& reader) {
  Add(reader, key, 0);
  Add(reader, val, 0);
}

void Describer::Add(Reader& reader, Description& description, int depth) {
  if (depth > kMaxDepth) throw Error(Code::kDataLoss, "objects are nested more than 32 deep");
  if (reader.left() == 0) throw Error(Code::kDataLoss, "a row is cut off");
  const std::uint8_t type_code = *reader.at();
  if (type_code == code::kNull) {
    ++description.nulls;
    return reader.Skip(1);
  }
  ++description.values;
  if (type_code == code::kObject || type_code == code::kWrapped) {
    description.type_codes.insert(code::kObject);
    return AddObject(type_code == code::kObject ? ObjectView::Read(reader) : ObjectView::ReadWrapped(reader),
                     description, depth);
  }
  description.type_codes.insert(type_code);
  SkipValue(reader);
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
}

}  // namespace ignite_strategy
