#include "native/igfs/check.h"

#include <algorithm>

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr char kLostAndFound[] = "lost+found";
constexpr std::size_t kQuestionsAtOnce = 4096;

// A name as it may be shown and used again, whatever it was.
std::string Printable(const std::string& name) {
  std::string shown;
  for (const char c : name.substr(0, 64)) shown += c == '/' || static_cast<unsigned char>(c) < 32 ? '_' : c;
  return shown;
}

std::string Plural(std::uint64_t number, const char* thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

bool IsEntry(const Key& key, const Record& record) {
  return !IsSpecial(key.name) && (record.IsFile() || record.IsDirectory());
}

std::uint64_t Blocks(const std::vector<BlockRange>& ranges) {
  std::uint64_t blocks = 0;
  for (const BlockRange& range : ranges) blocks += range.end - range.first;
  return blocks;
}

}  // namespace

void Checker::Progress(const char* step, std::uint64_t done, std::uint64_t all) const {
  if (options_.progress) options_.progress(step, done, all);
}

void Checker::Found(std::string path, std::string what, std::string repair) {
  ++report_.found;
  if (report_.findings.size() < kMostFindings)
    report_.findings.push_back({std::move(path), std::move(what), std::move(repair)});
}

std::string Checker::PathOf(const Key& key) const {
  const auto above = reached_.find(key.parent);
  const std::string name = Printable(key.name);
  if (above == reached_.end()) return "(no directory)/" + name;
  return above->second + (above->second.back() == '/' ? "" : "/") + name;
}

void Checker::Read(const Wait& wait) {
  Progress("reading the tree", 0, 0);
  try {
    tree_.store().ScanAll([&] { records_.clear(); },
                          [&](Key&& key, Record&& record) {
                            records_[std::move(key)] = std::move(record);
                            if (records_.size() % 10'000 == 0)
                              Progress("reading the tree", records_.size(), 0);
                          },
                          wait);
  } catch (const Error& error) {
    if (!Store::IsMissingCache(error)) throw;
    records_.clear();
  }
}

void Checker::Count() {
  Usage& usage = report_.usage;
  usage = Usage{0, 0, 0, 0, 0, usage.stored_blocks};
  for (const auto& [key, record] : records_) {
    if (record.kind == Kind::kTrash) usage.trash_blocks += Blocks(record.blocks);
    if (record.kind == Kind::kWriting) ++usage.writers;
    if (!IsEntry(key, record)) continue;
    ++(record.IsFile() ? usage.files : usage.directories);
    usage.bytes += record.size();
  }
}

Usage Checker::Measure(const Wait& wait) {
  // Before the tree is read: what is written meanwhile is then not taken for something that no file refers
  // to.
  try {
    report_.usage.stored_blocks = tree_.store().CountBlocks(wait);
  } catch (const Error& error) {
    if (!Store::IsMissingCache(error)) throw;
  }
  Read(wait);
  Count();
  return report_.usage;
}

CheckReport Checker::Run(const Wait& wait) {
  Measure(wait);
  if (records_.empty()) return std::move(report_);
  WalkEverything();
  CheckDirectories(wait);
  CheckUnreachable(wait);
  CheckFiles(wait);
  CheckRemovals(wait);
  CollectSpecial(wait);
  CheckBlocks(wait);
  if (options_.repair) Measure(wait);
  return std::move(report_);
}

// Notes every directory below `root`, which has the path `path`.
void Checker::Walk(Id root, const std::string& path, bool removed) {
  std::vector<std::pair<Id, std::string>> open{{root, path}};
  while (!open.empty()) {
    const auto [directory, at] = std::move(open.back());
    open.pop_back();
    if (!reached_.emplace(directory, at).second) {
      Found(at, "and " + reached_[directory] + " are one directory");
      continue;
    }
    if (removed) doomed_.insert(directory);
    for (auto record = records_.lower_bound(HeaderKey(directory));
         record != records_.end() && record->first.parent == directory; ++record) {
      if (IsSpecial(record->first.name) || !record->second.IsDirectory()) continue;
      open.emplace_back(record->second.id, PathOf(record->first));
    }
  }
}

void Checker::WalkEverything() {
  Walk(kRoot, "/", false);
  for (const auto& [key, record] : records_) {
    if (record.kind == Kind::kDoomed && reached_.count(record.id) == 0) Walk(record.id, "(removed)", true);
  }
}

// Entries that no listing shows, and directories that cannot be listed or written to.
void Checker::CheckDirectories(const Wait& wait) {
  for (const auto& [key, record] : records_) {
    if (key.parent == kSystem || doomed_.count(key.parent) > 0 || !IsEntry(key, record)) continue;
    if (!ValidName(key.name)) {
      std::string repair;
      if (options_.repair) {
        const std::string name = "entry-" + HexId(NewId());
        MoveToLostAndFound(key, record, record, name, wait);
        repair = "moved to /" + std::string(kLostAndFound) + "/" + name;
      }
      Found(PathOf(key), "has a name that is not allowed: no listing shows it", std::move(repair));
    }
    if (record.IsDirectory() && records_.count(HeaderKey(record.id)) == 0) {
      if (options_.repair) {
        Record header;
        header.kind = Kind::kHeader;
        tree_.store().Put(HeaderKey(record.id), header, wait);
      }
      Found(PathOf(key), "is a directory that has lost its own record", options_.repair ? "made anew" : "");
    }
  }
}

// Directories whose names are gone. What only keeps blocks for a directory that was removed is none.
void Checker::CheckUnreachable(const Wait& wait) {
  std::map<Id, std::uint64_t> lost;  // directory -> entries
  std::set<Id> below;
  for (const auto& [key, record] : records_) {
    if (key.parent == kSystem || reached_.count(key.parent) > 0) continue;
    if (record.kind == Kind::kHeader) lost[key.parent];
    if (!IsEntry(key, record)) continue;
    ++lost[key.parent];
    if (record.IsDirectory()) below.insert(record.id);
  }
  for (const auto& [directory, entries] : lost) {
    if (below.count(directory) > 0) continue;
    const std::string name = "directory-" + HexId(directory);
    // A directory that is being moved may look lost for a moment.
    if (options_.repair && options_.offline) {
      Record header, record;
      header.kind = Kind::kHeader;
      record.kind = Kind::kDirectory;
      record.id = directory;
      record.mtime = NowNanos();
      const Id parent = LostAndFound(wait);
      Transact(tree_.store(), "repairing", wait, [&](Transaction& transaction) {
        transaction.Put(HeaderKey(directory), header);
        transaction.Put(Key{parent, name}, record);
      });
      Found(name, "had lost its name, with " + Plural(entries, "file"),
            "moved to /" + std::string(kLostAndFound) + "/" + name);
    } else {
      Found(name, "has no name any more, with " + Plural(entries, "file") +
                      (options_.offline ? "" : " in it, or is just being moved"));
    }
  }
}

void Checker::CheckFiles(const Wait& wait) {
  std::uint64_t all = 0, done = 0;
  for (const auto& [key, record] : records_) all += record.IsFile() ? 1 : 0;
  for (const auto& [key, record] : records_) {
    if (!record.IsFile()) continue;
    CheckFile(key, record, wait);
    if (++done % 100 == 0 || done == all) Progress("looking for the blocks of files", done, all);
  }
}

void Checker::CheckFile(const Key& key, const Record& record, const Wait& wait) {
  Record whole = record;  // as far as its blocks are there
  whole.extents.clear();
  std::uint64_t missing = 0;
  for (const Extent& extent : record.extents) {
    const std::uint64_t blocks = (extent.length + record.block_size - 1) / record.block_size;
    std::uint64_t prefix = 0;
    for (std::uint64_t first = 0; first < blocks; first += kQuestionsAtOnce) {
      std::vector<BlockQuestion> questions;
      for (std::uint64_t i = first; i < std::min(blocks, first + kQuestionsAtOnce); ++i) {
        // Only the last block of a content is ever shorter than it should be.
        questions.push_back({extent.content, i, i + 1 < blocks ? 0 : extent.length - i * record.block_size});
      }
      for (const Stored stored : tree_.store().LookForBlocks(questions, wait)) {
        referenced_ += stored == Stored::kNot ? 0 : 1;
        missing += stored == Stored::kWhole ? 0 : 1;
        if (missing == 0) ++prefix;
      }
    }
    const std::uint64_t length = std::min(extent.length, prefix * record.block_size);
    if (length > 0) whole.extents.push_back({extent.content, length});
  }
  if (missing == 0 || doomed_.count(key.parent) > 0) return;
  // It may have been replaced, and its blocks collected, since the tree was read.
  const auto now = tree_.store().Get({key}, wait).front();
  if (!now || !(*now == record)) return;
  const std::string what = "is not whole: " + Plural(missing, "block") + " of its " +
                           std::to_string(record.size()) + " bytes " + (missing == 1 ? "is" : "are") +
                           " gone or too short";
  if (!options_.repair) return Found(PathOf(key), what);
  const std::string name = Printable(key.name).substr(0, 40) + "-" + HexId(NewId());
  MoveToLostAndFound(key, record, whole, name, wait);
  Found(PathOf(key), what,
        "its first " + std::to_string(whole.size()) + " bytes are now /" + kLostAndFound + "/" + name);
}

Id Checker::LostAndFound(const Wait& wait) {
  if (lost_and_found_ != 0) return lost_and_found_;
  tree_.MakeDirectories({kLostAndFound}, wait);
  lost_and_found_ = tree_.Resolve({kLostAndFound}, wait).record.value().id;
  return lost_and_found_;
}

// `kept` takes the place of `record`, under another name.
void Checker::MoveToLostAndFound(const Key& key, const Record& record, const Record& kept,
                                 const std::string& name, const Wait& wait) {
  const Key target{LostAndFound(wait), name};
  Record trash;
  Transact(tree_.store(), "repairing " + PathOf(key), wait, [&](Transaction& transaction) {
    const auto now = transaction.Get({key, target});
    if (now[1]) return;  // an attempt whose answer was lost
    if (!now[0] || !(*now[0] == record))
      throw Error(Code::kAborted, PathOf(key) + " was changed while it was being repaired");
    transaction.Put(target, kept);
    Tree::PutTrash(transaction, target.parent, Unused(record, kept), &trash);
    transaction.Remove(key);
  });
}

void Checker::CheckRemovals(const Wait& wait) {
  for (const auto& [key, record] : records_) {
    if (record.kind != Kind::kDoomed || doomed_.count(key.parent) > 0) continue;
    if (options_.repair) tree_.RemoveDoomed(key, record.id, wait);
    Found("a directory that was removed", "still has its content: whoever removed it was interrupted",
          options_.repair ? "removed" : "");
  }
}

std::uint64_t Checker::CountStored(const std::vector<BlockRange>& ranges, const Wait& wait) {
  std::uint64_t stored = 0;
  for (const BlockRange& range : ranges) {
    for (std::uint64_t first = range.first; first < range.end; first += kQuestionsAtOnce) {
      std::vector<BlockQuestion> questions;
      for (std::uint64_t i = first; i < std::min(range.end, first + kQuestionsAtOnce); ++i)
        questions.push_back({range.content, i, 0});
      const std::vector<Stored> found = tree_.store().LookForBlocks(questions, wait);
      stored += static_cast<std::uint64_t>(std::count(found.begin(), found.end(), Stored::kWhole));
    }
  }
  return stored;
}

// What is kept for readers and writers: with nobody else there, for nobody.
void Checker::CollectSpecial(const Wait& wait) {
  const bool collect = options_.repair && options_.offline;
  if (collect) Read(wait);  // repairs and finished removals have left some more
  for (const auto& [key, record] : records_) {
    if (record.kind != Kind::kTrash && record.kind != Kind::kWriting) continue;
    const std::uint64_t stored = CountStored(record.blocks, wait);
    if (!collect) {
      referenced_ += stored;
      continue;
    }
    for (const BlockRange& range : record.blocks) tree_.store().RemoveBlocks(range, wait);
    tree_.store().Remove(key, wait);
    report_.collected_blocks += stored;
  }
}

// Blocks that no record refers to.
void Checker::CheckBlocks(const Wait& wait) {
  const std::uint64_t now = tree_.store().CountBlocks(wait);
  if (!options_.offline) {
    const std::uint64_t stored = std::min(now, report_.usage.stored_blocks);
    if (stored > referenced_) {
      Found("the cache of blocks",
            "has " + Plural(stored - referenced_, "block") +
                " that no file refers to, or that are just being removed: when nobody else "
                "uses the file system, --offline finds them and --repair frees them");
    }
    return;
  }
  Read(wait);
  std::map<Id, std::vector<BlockRange>> used;
  for (const auto& [key, record] : records_) {
    for (const BlockRange& range :
         record.IsFile() ? BlocksOf(record.extents, record.block_size) : record.blocks)
      used[range.content].push_back(range);
  }
  std::set<std::pair<Id, std::uint64_t>> orphans;
  std::uint64_t seen = 0;
  tree_.store().ScanBlocks(
      [&](Id content, std::uint64_t index) {
        if (++seen % 100 == 0) Progress("looking for blocks of no file", seen, now);
        const auto ranges = used.find(content);
        if (ranges != used.end() &&
            std::any_of(ranges->second.begin(), ranges->second.end(),
                        [&](const BlockRange& range) { return index >= range.first && index < range.end; }))
          return;
        orphans.emplace(content, index);
      },
      wait);
  if (orphans.empty()) return;
  if (options_.repair) {
    for (const auto& [content, index] : orphans)
      tree_.store().RemoveBlocks({content, index, index + 1}, wait);
    report_.collected_blocks += orphans.size();
  }
  Found("the cache of blocks", "had " + Plural(orphans.size(), "block") + " that no file refers to",
        options_.repair ? "removed" : "");
}

}  // namespace igfs
}  // namespace ignite_strategy
