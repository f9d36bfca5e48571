#include "native/igfs/tree.h"

#include <algorithm>

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::size_t kMaxHints = 16 * 1024;

Status StatusOf(const Record& record) { return {record.IsDirectory(), record.size(), record.mtime}; }

}  // namespace

Tree::Tree(Target target)
    : store_(std::move(target)),
      collector_(store_, [this](const Key& key, Id id, const Wait& wait) { RemoveDoomed(key, id, wait); }) {}

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

// How far down `path` the directories seen before lead, at most to the one that its last entry is in.
Tree::Known Tree::Recall(const Path& path) {
  const std::lock_guard<std::mutex> lock(hints_mutex_);
  Known known;
  known.generation = generation_;
  for (std::size_t at = 0; at + 1 < path.size(); ++at) {
    const auto hint = hints_.find(Key{known.directories.back(), path[at]});
    if (hint == hints_.end()) break;
    known.directories.push_back(hint->second);
  }
  return known;
}

// Notes where directories are, as seen when the tree's generation was this one, or later.
void Tree::Remember(const std::vector<std::pair<Key, Id>>& directories, Id generation) {
  const std::lock_guard<std::mutex> lock(hints_mutex_);
  if (generation != generation_ || hints_.size() >= kMaxHints) hints_.clear();
  generation_ = generation;
  for (const auto& [key, id] : directories) hints_[key] = id;
}

// Reads one entry after the other, from where the directories seen before end. These are where they were as
// long as no directory has been renamed or removed, which the generation tells that is read along with the
// first entry. `passed` gets the directories on the way, without the last entry.
Place Tree::Walk(const Path& path, std::vector<Id>* passed, const Wait& wait) {
  Known known = Recall(path);
  std::size_t at = known.directories.size() - 1;
  std::optional<Record> entry, moves;
  if (path.size() == 1) {
    entry = std::move(store_.Get({Key{kRoot, path[0]}}, wait).front());
  } else {
    auto records = store_.Get({MovesKey(), Key{known.directories.back(), path[at]}}, wait);
    moves = std::move(records[0]);
    entry = std::move(records[1]);
  }
  const Id generation = moves ? moves->id : 0;
  const bool same = generation != 0 && generation == known.generation;
  // An entry that was read together with another generation may be older than that is.
  bool certain = same;
  if (at > 0 && !same) {
    known.directories.resize(1);
    at = 0;
    entry = std::move(store_.Get({Key{kRoot, path[0]}}, wait).front());
    certain = true;
  }
  std::vector<std::pair<Key, Id>> seen;
  while (at + 1 < path.size()) {
    const Key key{known.directories.back(), path[at++]};
    const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(at));
    if (!entry) throw NotFound(above);
    if (!entry->IsDirectory()) throw NotADirectory(above);
    if (certain) seen.emplace_back(key, entry->id);
    certain = true;
    known.directories.push_back(entry->id);
    entry = std::move(store_.Get({Key{entry->id, path[at]}}, wait).front());
  }
  if (generation != 0 && !(same && seen.empty())) Remember(seen, generation);
  const Key key{known.directories.back(), path[at]};
  if (passed != nullptr) *passed = std::move(known.directories);
  return Place{key, std::move(entry)};
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
