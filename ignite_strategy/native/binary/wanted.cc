#include "native/binary/wanted.h"

#include "native/binary/types.h"

namespace ignite_strategy {
namespace {

[[noreturn]] void Contradiction(const ColumnSpec& spec) {
  throw Error(Code::kInvalidArgument,
              "column '" + spec.Name() +
                  "' is named twice, or both as a value and as an object, a collection "
                  "or a map");
}

// The child of that name, made if there is none.
Wanted* Grow(Wanted* node, const std::string& part, Wanted::Kind kind, const ColumnSpec& spec) {
  if (node->is_column()) Contradiction(spec);
  Wanted* child = node->Child(part);
  if (child != nullptr) {
    if (child->kind != kind) Contradiction(spec);
    return child;
  }
  if (node->kind == Wanted::Kind::kMap && part != "keys" && part != "values") Contradiction(spec);
  node->children.push_back(std::make_unique<Wanted>());
  child = node->children.back().get();
  child->name = part;
  child->path = node->path.empty() ? part : node->path + "." + part;
  child->kind = kind;
  return child;
}

Wanted::Kind LeafKind(const ColumnSpec& spec) {
  if (spec.repeated != 0 && spec.repeated == spec.path.size()) return Wanted::Kind::kSequence;
  return spec.type().support == Support::kArray ? Wanted::Kind::kArray : Wanted::Kind::kScalar;
}

void AddColumn(Wanted* root, const ColumnSpec& spec, int index) {
  const TypeInfo* type = FindType(spec.type_code);
  if (type == nullptr || (type->support != Support::kScalar && type->support != Support::kArray)) {
    throw Error(Code::kUnimplemented, "column '" + spec.Name() + "': " + WithArticle(spec.type_code) +
                                          " cannot be a column; leave it out with columns=");
  }
  if (spec.path.empty() || spec.repeated > spec.path.size() ||
      (spec.repeated != 0 && type->support == Support::kArray) ||
      (spec.map && spec.repeated == spec.path.size())) {
    Contradiction(spec);
  }
  Wanted* node = root;
  std::vector<Wanted*> way;
  for (std::size_t i = 0; i < spec.path.size(); ++i) {
    Wanted::Kind kind = Wanted::Kind::kObject;
    if (i + 1 == spec.path.size()) {
      kind = LeafKind(spec);
    } else if (i + 1 == spec.repeated) {
      kind = spec.map ? Wanted::Kind::kMap : Wanted::Kind::kObjects;
    }
    node = Grow(node, spec.path[i], kind, spec);
    way.push_back(node);
  }
  if (node->is_column() || !node->children.empty()) Contradiction(spec);
  for (Wanted* part : way) part->columns.push_back(index);
  node->column = index;
  node->spec = &spec;
  node->type_code = spec.type_code;
  node->dtype = spec.dtype();
  node->item_size = ItemSize(node->dtype);
  node->repeated = spec.repeated != 0 && node->kind == Wanted::Kind::kScalar;
  node->plain_text =
      node->kind == Wanted::Kind::kScalar && !node->repeated && spec.type_code == code::kString;
  node->packed = node->kind == Wanted::Kind::kArray && type->layout == Layout::kPacked;
  if (node->kind == Wanted::Kind::kScalar && !node->repeated && type->layout == Layout::kFixed &&
      type->item_size == node->item_size) {
    node->plain_size = node->item_size;
  }
}

// The same columns as those of `node`, `depth` parts down their paths, if it is a collection of objects or a
// map. Null if it cannot be one.
std::unique_ptr<Wanted> Alternative(const std::vector<ColumnSpec>& specs, const Wanted& node,
                                    std::size_t depth, bool map, WantedTree* tree) {
  Wanted root;
  for (const int column : node.columns) {
    auto spec = std::make_unique<ColumnSpec>(specs[static_cast<std::size_t>(column)]);
    if (!spec->declared || spec->repeated != 0 || spec->type().item == 0) return nullptr;
    if (map && spec->path[depth] != "keys" && spec->path[depth] != "values") return nullptr;
    spec->type_code = spec->type().item;
    spec->repeated = static_cast<std::uint8_t>(depth);
    spec->map = map;
    AddColumn(&root, *spec, column);
    tree->specs.push_back(std::move(spec));
  }
  Wanted* parent = &root;
  for (std::size_t i = 1; i < depth; ++i) parent = parent->children.front().get();
  return std::move(parent->children.front());
}

void AddAlternatives(const std::vector<ColumnSpec>& specs, Wanted* node, std::size_t depth,
                     WantedTree* tree) {
  if (node->kind != Wanted::Kind::kObject) return;
  node->as_objects = Alternative(specs, *node, depth, false, tree);
  node->as_map = Alternative(specs, *node, depth, true, tree);
  for (const auto& child : node->children) AddAlternatives(specs, child.get(), depth + 1, tree);
}

}  // namespace

bool Wanted::Takes(std::uint8_t item_code) const {
  const TypeInfo* type = FindType(item_code);
  if (type == nullptr || type->support != Support::kScalar) return false;
  if (spec->declared) return DTypeOf(item_code, spec->forms) == dtype;
  const std::uint8_t own = spec->type().item != 0 ? spec->type().item : type_code;
  return Family(item_code) == Family(own);
}

std::string Wanted::Expected() const {
  switch (kind) {
    case Kind::kObject:
      return "an object";
    case Kind::kObjects:
      return "a collection of objects";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
    case Kind::kArray:
    case Kind::kSequence:
      break;
  }
  if (spec->declared) return std::string(kind == Kind::kScalar ? "" : "an array of ") + DTypeName(dtype);
  return kind == Kind::kSequence ? std::string("a collection of ") + TypeName(type_code)
                                 : WithArticle(type_code);
}

WantedTree MakeWanted(const std::vector<ColumnSpec>& specs) {
  WantedTree tree;
  tree.root = std::make_unique<Wanted>();
  Wanted* root = tree.root.get();
  for (std::size_t i = 0; i < specs.size(); ++i) AddColumn(root, specs[i], static_cast<int>(i));
  for (const auto& child : root->children) {
    if (child->name != "key" && child->name != "val") {
      throw Error(Code::kInvalidArgument, "column '" + child->path + "' begins with neither key nor val");
    }
  }
  for (const auto& child : root->children) AddAlternatives(specs, child.get(), 1, &tree);
  return tree;
}

}  // namespace ignite_strategy
