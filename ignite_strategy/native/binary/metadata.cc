#include "native/binary/metadata.h"

#include <utility>

namespace ignite_strategy {
namespace {

std::string Name(Reader& reader) { return reader.TypedString().value_or(std::string()); }

std::map<std::int32_t, std::string> EnumValues(Reader& reader) {
  const std::size_t count = reader.Count(5);
  std::map<std::int32_t, std::string> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = Name(reader);
    values[reader.Get<std::int32_t>()] = std::move(name);
  }
  return values;
}

std::vector<FieldMetadata> Fields(Reader& reader) {
  const std::size_t count = reader.Count(9);
  std::vector<FieldMetadata> fields(count);
  for (FieldMetadata& field : fields) {
    field.name = Name(reader);
    field.type_code = static_cast<std::uint8_t>(reader.Get<std::int32_t>());
    field.id = reader.Get<std::int32_t>();
  }
  return fields;
}

}  // namespace

const FieldMetadata* TypeMetadata::Find(std::int32_t field_id) const {
  for (const FieldMetadata& field : fields) {
    if (field.id == field_id) return &field;
  }
  return nullptr;
}

std::optional<TypeMetadata> ParseTypeMetadata(Reader& reader) {
  if (!reader.GetBool()) return std::nullopt;
  TypeMetadata type;
  type.type_id = reader.Get<std::int32_t>();
  type.name = Name(reader);
  reader.TypedString();  // the affinity key field
  type.fields = Fields(reader);
  if (reader.GetBool()) type.enum_values = EnumValues(reader);
  const std::size_t schemas = reader.Count(8);
  for (std::size_t i = 0; i < schemas; ++i) {
    const auto schema_id = reader.Get<std::int32_t>();
    std::vector<std::int32_t> ids(reader.Count(4));
    for (std::int32_t& id : ids) id = reader.Get<std::int32_t>();
    type.schemas[schema_id] = std::move(ids);
  }
  return type;
}

const TypeMetadata* TypeCache::Get(std::int32_t type_id) {
  auto found = types_.find(type_id);
  if (found == types_.end()) found = types_.emplace(type_id, fetch_(type_id)).first;
  return found->second ? &*found->second : nullptr;
}

const std::vector<std::int32_t>& TypeCache::Schema(std::int32_t type_id, std::int32_t schema_id) {
  const TypeMetadata* type = Get(type_id);
  if (type == nullptr || type->schemas.count(schema_id) == 0) {
    types_[type_id] = fetch_(type_id);
    type = Get(type_id);
  }
  if (type != nullptr) {
    const auto found = type->schemas.find(schema_id);
    if (found != type->schemas.end()) return found->second;
  }
  throw Error(Code::kDataLoss, "the server does not know schema " + std::to_string(schema_id) + " of type " +
                                   (type == nullptr ? std::to_string(type_id) : "'" + type->name + "'"));
}

}  // namespace ignite_strategy
