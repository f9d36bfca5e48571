#include "native/binary/decoder.h"

#include <cstring>
#include <map>
#include <utility>

#include "native/binary/types.h"

namespace ignite_strategy {
namespace {

constexpr int kMissing = -1;
// Objects with full footers say their field ids one by one; more versions of a type than this are not
// remembered.
constexpr std::size_t kMaxRememberedSchemas = 1024;

const char kLeaveOut[] = "; leave the column out with columns=, or give the field a value in every row";

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

// The wanted part of a value: a column, or an object some of whose fields are wanted.
struct RowDecoder::Node {
  std::string name;  // of the field
  std::string path;  // of the whole, for messages
  int column = kMissing;
  std::uint8_t type_code = 0;
  std::size_t item_size = 0;
  bool array = false;
  std::vector<std::unique_ptr<Node>> children;

  // For each child the index of its value in objects of this type and schema.
  using Positions = std::vector<int>;
  std::map<std::pair<std::int32_t, std::int32_t>, Positions> known;
  std::pair<std::int32_t, std::int32_t> last{0, 0};
  const Positions* positions = nullptr;  // of `last`; most caches hold one schema

  Node* Child(const std::string& child_name) const {
    for (const auto& child : children) {
      if (child->name == child_name) return child.get();
    }
    return nullptr;
  }
};

RowDecoder::RowDecoder(const std::vector<ColumnSpec>& specs, TypeCache* types, std::string where)
    : root_(std::make_unique<Node>()), types_(types), where_(std::move(where)) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ColumnSpec& spec = specs[i];
    Node* node = root_.get();
    for (const std::string& part : spec.path) {
      if (node->column != kMissing) break;
      Node* child = node->Child(part);
      if (child == nullptr) {
        node->children.push_back(std::make_unique<Node>());
        child = node->children.back().get();
        child->name = part;
        child->path = node->path.empty() ? part : node->path + "." + part;
      }
      node = child;
    }
    if (node == root_.get() || node->column != kMissing || !node->children.empty()) {
      throw Error(Code::kInvalidArgument,
                  "column '" + spec.Name() + "' is named twice, or both as a value and as an object");
    }
    const TypeInfo* type = FindType(spec.type_code);
    if (type == nullptr || (type->support != Support::kScalar && type->support != Support::kArray)) {
      throw Error(Code::kUnimplemented, "column '" + spec.Name() + "': " + WithArticle(spec.type_code) +
                                            " cannot be read in this version" + kLeaveOut);
    }
    node->column = static_cast<int>(i);
    node->type_code = spec.type_code;
    node->item_size = ItemSize(type->dtype);
    node->array = type->support == Support::kArray;
  }
  for (const auto& child : root_->children) {
    if (child->name != "key" && child->name != "val") {
      throw Error(Code::kInvalidArgument, "column '" + child->path + "' begins with neither key nor val");
    }
  }
}

RowDecoder::~RowDecoder() = default;

void RowDecoder::Locate(Reader& reader, std::vector<Slot>& slots) {
  const Reader row = reader;
  const char* part = "key";
  try {
    for (const char* name : {"key", "val"}) {
      part = name;
      Node* node = root_->Child(name);
      if (node == nullptr) {
        SkipValue(reader);
      } else {
        LocateValue(reader, *node, slots);
      }
    }
  } catch (const Error& error) {
    throw Error(error.code(),
                where_ + ", row with key " + DescribeKey(row) + ", in " + part + ": " + error.message(),
                error.server_status());
  }
}

void RowDecoder::LocateValue(Reader& reader, Node& node, std::vector<Slot>& slots) {
  if (reader.left() == 0) throw Error(Code::kDataLoss, "the page ends before field " + node.path);
  const std::uint8_t type_code = *reader.at();
  if (node.column == kMissing) {
    if (type_code == code::kObject) return LocateObject(ObjectView::Read(reader), node, slots);
    if (type_code == code::kWrapped) return LocateObject(ObjectView::ReadWrapped(reader), node, slots);
  } else if (type_code == node.type_code) {
    reader.Skip(1);
    Slot& slot = slots[static_cast<std::size_t>(node.column)];
    if (node.array) {
      slot.count = reader.Count(node.item_size);
      slot.data = reader.Bytes(slot.count * node.item_size);
    } else if (node.item_size == 0) {
      slot.count = reader.Count(1);
      slot.data = reader.Bytes(slot.count);
    } else {
      slot.data = reader.Bytes(node.item_size);
    }
    return;
  }
  if (type_code == code::kNull) {
    throw Error(Code::kUnimplemented,
                "field " + node.path + " is NULL, which this version does not read" + kLeaveOut);
  }
  const TypeInfo* type = FindType(type_code);
  if (type == nullptr) {
    throw Error(Code::kDataLoss,
                "field " + node.path + " has the unknown type code " + std::to_string(type_code));
  }
  if (type->support == Support::kUnsupported) {
    throw Error(Code::kUnimplemented, "field " + node.path + " is " + WithArticle(type_code) +
                                          ", which this version does not read" + kLeaveOut);
  }
  const std::string want = node.column == kMissing ? "an object" : WithArticle(node.type_code);
  throw Error(Code::kInvalidArgument, "field " + node.path + " is " + WithArticle(type_code) + " here but " +
                                          want + " in the dataset's element_spec");
}

void RowDecoder::LocateObject(const ObjectView& object, Node& node, std::vector<Slot>& slots) {
  // A full footer may name its fields without any schema id, so only compact ones are looked up by it.
  const std::pair<std::int32_t, std::int32_t> schema{object.type_id(), object.schema_id()};
  if (!object.compact() || node.positions == nullptr || node.last != schema) {
    Resolve(object, node);
    node.last = schema;
  }
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const int position = (*node.positions)[i];
    Node& child = *node.children[i];
    if (position == kMissing || static_cast<std::size_t>(position) >= object.field_count()) {
      throw Error(Code::kUnimplemented,
                  "field " + child.path + " is missing (NULL), which this version does not read" + kLeaveOut);
    }
    Reader value = object.Field(static_cast<std::size_t>(position));
    LocateValue(value, child, slots);
  }
}

void RowDecoder::Resolve(const ObjectView& object, Node& node) {
  const std::pair<std::int32_t, std::int32_t> schema{object.type_id(), object.schema_id()};
  if (object.compact()) {
    const auto found = node.known.find(schema);
    if (found != node.known.end()) {
      node.positions = &found->second;
      return;
    }
  }
  if (node.known.size() >= kMaxRememberedSchemas) node.known.clear();
  const std::vector<std::int32_t> ids = object.FieldIds(*types_);
  // The metadata knows how a name became an id; the hash is the default for types it does not know.
  const TypeMetadata* type = ids.empty() ? nullptr : types_->Get(object.type_id());
  Node::Positions& positions = node.known[schema];
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
  node.positions = &positions;
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
