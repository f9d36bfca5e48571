// How SQL sees a cache, as the server describes it.
#include "native/binary/types.h"
#include "native/scan/discover.h"

namespace ignite_strategy {
namespace {

std::string Text(Reader& reader) { return reader.TypedString().value_or(std::string()); }

void SkipTexts(Reader& reader, int count) {
  for (int i = 0; i < count; ++i) reader.TypedString();
}

QueryEntity ParseQueryEntity(Reader& reader, const Version& version) {
  QueryEntity entity;
  entity.key_type = Text(reader);
  entity.value_type = Text(reader);
  reader.TypedString();  // table
  entity.key_field = Text(reader);
  entity.value_field = Text(reader);
  const std::size_t fields = reader.Count(5);
  for (std::size_t i = 0; i < fields; ++i) {
    EntityField field;
    field.name = Text(reader);
    field.java_type = Text(reader);
    field.is_key = reader.GetBool();
    reader.GetBool();                           // not null
    SkipValue(reader);                          // default value
    if (version.AtLeast(1, 2)) reader.Skip(8);  // precision, scale
    entity.fields.push_back(std::move(field));
  }
  const std::size_t aliases = reader.Count(2);
  for (std::size_t i = 0; i < aliases; ++i) {
    const std::string field = Text(reader);
    entity.aliases[field] = Text(reader);
  }
  const std::size_t indexes = reader.Count(10);
  for (std::size_t i = 0; i < indexes; ++i) {
    reader.TypedString();  // name
    reader.Skip(1 + 4);    // type, inline size
    const std::size_t columns = reader.Count(2);
    for (std::size_t column = 0; column < columns; ++column) {
      reader.TypedString();
      reader.GetBool();  // descending
    }
  }
  return entity;
}

}  // namespace

std::vector<QueryEntity> ParseQueryEntities(Reader& reader, const Version& version) {
  reader.Skip(4 + 4 + 4 + 4 + 1);  // length, atomicity, backups, mode, copy on read
  SkipTexts(reader, 1);            // data region
  reader.Skip(1 + 1);              // eager expiry, statistics
  SkipTexts(reader, 1);            // group
  reader.Skip(8 + 4 + 4);          // lock timeout, concurrent operations, query iterators
  SkipTexts(reader, 1);            // name
  // on-heap, loss policy, query details and parallelism, read from backup, rebalancing (batch size, prefetch,
  // delay, mode, order, throttle, timeout), SQL escape all, inline size
  reader.Skip(1 + 4 + 4 + 4 + 1 + 4 + 8 + 8 + 4 + 4 + 8 + 8 + 1 + 4);
  SkipTexts(reader, 1);  // SQL schema
  reader.Skip(4);        // write synchronization
  const std::size_t keys = reader.Count(2);
  for (std::size_t i = 0; i < keys; ++i) SkipTexts(reader, 2);
  std::vector<QueryEntity> entities;
  const std::size_t count = reader.Count(17);
  for (std::size_t i = 0; i < count; ++i) entities.push_back(ParseQueryEntity(reader, version));
  return entities;
}

}  // namespace ignite_strategy
