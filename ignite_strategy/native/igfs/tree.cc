#include "native/igfs/tree.h"

#include <algorithm>

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::size_t kMaxHints = 16 * 1024;
// Levels asked for at once: enough for real trees, and far from filling a socket's buffers with requests.
constexpr std::size_t kLevelsAtOnce = 32;

Status StatusOf(const Record& record) { return {record.IsDirectory(), record.size(), record.mtime}; }

}  // namespace

Tree::Tree(Target target)
    : store_(std::move(target)),
      collector_(store_, [this](const Key& key, Id id, const Wait& wait) { RemoveDoomed(key, id, wait); }),
      room_(store_) {}

std::shared_ptr<Tree> Tree::Mount(const Target& target) {
  // Never destroyed: TensorFlow closes files while the process exits.
  static auto* mutex = new std::mutex;
  // Who speaks to the cluster in another way gets a tree of its own: a user's rights are not everybody's.
  using Key = std::pair<std::shared_ptr<const Security>, std::string>;
  static auto* trees = new std::map<Key, std::shared_ptr<Tree>>;
  const Options& options = target.options;
  std::string key = target.ToString();
  for (const std::int64_t value :
       {std::int64_t{options.block_size}, std::int64_t{options.backups}, std::int64_t{options.grace.count()},
        std::int64_t{options.writer_lease.count()}}) {
    key += " " + std::to_string(value);
  }
  const std::lock_guard<std::mutex> lock(*mutex);
  std::shared_ptr<Tree>& tree = (*trees)[{target.endpoints.front().security, key}];
  if (!tree) tree = std::make_shared<Tree>(target);
  return tree;
}

Error Tree::NotFound(const Path& path) const {
  return Error(Code::kNotFound, Describe(path) + ": no such file or directory");
}

Error Tree::NotADirectory(const Path& path) const {
  return Error(Code::kFailedPrecondition, Describe(path) + " is a file, not a directory");
}

// The keys to ask for next: as far as the directories seen before lead.
std::vector<Key> Tree::Predict(const Path& path, std::size_t at, Id parent) {
  std::vector<Key> keys;
  const std::lock_guard<std::mutex> lock(hints_mutex_);
  while (at < path.size() && keys.size() < kLevelsAtOnce) {
    keys.push_back(Key{parent, path[at++]});
    const auto hint = hints_.find(keys.back());
    if (hint == hints_.end()) break;
    parent = hint->second;
  }
  return keys;
}

void Tree::Remember(const Key& key, Id directory) {
  const std::lock_guard<std::mutex> lock(hints_mutex_);
  if (hints_.size() >= kMaxHints) hints_.clear();
  hints_[key] = directory;
}

// Reads one entry after the other from the root, several at once where hints allow. `passed` gets the
// directories on the way, without the root and the last entry.
Place Tree::Walk(const Path& path, std::vector<Place>* passed, const Wait& wait) {
  Id parent = kRoot;
  std::size_t at = 0;
  for (;;) {
    const std::vector<Key> keys = Predict(path, at, parent);
    std::vector<std::optional<Record>> records = store_.Get(keys, wait);
    for (std::size_t i = 0; i < keys.size() && keys[i].parent == parent; ++i) {
      if (at + 1 == path.size()) return Place{keys[i], std::move(records[i])};
      ++at;
      const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(at));
      if (!records[i]) throw NotFound(above);
      if (!records[i]->IsDirectory()) throw NotADirectory(above);
      parent = records[i]->id;
      Remember(keys[i], parent);
      if (passed != nullptr) passed->push_back(Place{keys[i], std::move(records[i])});
    }
  }
}

Place Tree::Resolve(const Path& path, const Wait& wait) {
  if (path.empty()) {
    Record root;
    root.kind = Kind::kDirectory;
    root.id = kRoot;
    return Place{Key{}, root};
  }
  try {
    return Walk(path, nullptr, wait);
  } catch (const Error& error) {
    if (!Store::IsMissingCache(error)) throw;
  }
  // A file system that nobody has written to has a root and nothing else.
  if (path.size() > 1) throw NotFound({path.front()});
  return Place{Key{kRoot, path.front()}, std::nullopt};
}

Status Tree::GetStatus(const Path& path, const Wait& wait) {
  if (path.empty()) store_.Connect(wait);  // a cluster that does not answer has no root
  const Place place = Resolve(path, wait);
  if (!place.record) throw NotFound(path);
  return StatusOf(*place.record);
}

std::vector<std::pair<std::string, Status>> Tree::List(const Path& path, const Wait& wait) {
  const Place place = Resolve(path, wait);
  if (!place.record) throw NotFound(path);
  if (!place.record->IsDirectory()) throw NotADirectory(path);
  std::map<std::string, Status> found;
  const Id directory = place.record->id;
  try {
    store_.Scan(
        directory,
        [&](Key&& key, Record&& record) {
          if (IsSpecial(key.name)) {
            collector_.Notice(key, record);
          } else if (key.parent == directory && ValidName(key.name) &&
                     (record.IsFile() || record.IsDirectory())) {
            found[std::move(key.name)] = StatusOf(record);
          }
          return true;
        },
        wait);
  } catch (const Error& error) {
    if (!Store::IsMissingCache(error)) throw;
    found.clear();
  }
  collector_.Step(wait);
  return {found.begin(), found.end()};
}

void Tree::NeedDirectory(Transaction& transaction, Id directory, const std::optional<Record>& header,
                         const std::string& what) {
  if (!header && directory == kRoot) {  // the caches exist, but not their content: create it and try again
    throw Error(Code::kUnavailable, what + ": the file system has no root", kCacheDoesNotExist);
  }
  if (!header) throw Error(Code::kNotFound, what + ": the directory that it would be in was removed");
  if (header->id == 0) return;
  Record unmarked = *header;
  unmarked.id = 0;
  transaction.Put(HeaderKey(directory), unmarked);
}

void Tree::MakeDirectory(const Path& path, const Wait& wait) {
  const std::string what = Describe(path);
  if (path.empty()) throw Error(Code::kAlreadyExists, what + " is the root");
  store_.Create(wait);
  const Place place = Resolve(path, wait);
  if (place.record) throw Error(Code::kAlreadyExists, what + " exists already");
  Record directory, header;
  directory.kind = Kind::kDirectory;
  directory.id = NewId();
  directory.mtime = NowNanos();
  header.kind = Kind::kHeader;
  Transact(store_, "creating the directory " + what, wait, [&](Transaction& transaction) {
    const auto now = transaction.Get({HeaderKey(place.key.parent), place.key});
    if (now[1] && transaction.repeated() && now[1]->id == directory.id) return;
    if (now[1]) throw Error(Code::kAlreadyExists, what + " exists already");
    NeedDirectory(transaction, place.key.parent, now[0], what);
    transaction.Put(HeaderKey(directory.id), header);
    transaction.Put(place.key, directory);
  });
  Remember(place.key, directory.id);
}

void Tree::MakeDirectories(const Path& path, const Wait& wait) {
  for (std::size_t depth = path.empty() ? 0 : 1; depth <= path.size() && depth > 0; ++depth) {
    const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth));
    try {
      MakeDirectory(above, wait);
    } catch (const Error& error) {
      if (error.code() != Code::kAlreadyExists) throw;
      const Place place = Resolve(above, wait);
      if (place.record && !place.record->IsDirectory()) throw NotADirectory(above);
    }
  }
}

}  // namespace igfs
}  // namespace ignite_strategy
