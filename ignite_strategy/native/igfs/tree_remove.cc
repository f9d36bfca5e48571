// Tree: removing files, directories and whole trees.
#include <algorithm>

#include "native/igfs/tree.h"

namespace ignite_strategy {
namespace igfs {
namespace {

// A directory's content is removed in steps of this many entries, files in transactions of at most so many.
constexpr std::size_t kEntriesAtOnce = 1024;
constexpr std::size_t kFilesPerTransaction = 64;
constexpr int kRemoveAttempts = 20;

}  // namespace

Key Tree::PutTrash(Transaction& transaction, Id parent, std::vector<BlockRange> blocks, Record* trash) {
  *trash = Record{};
  trash->kind = Kind::kTrash;
  trash->blocks = std::move(blocks);
  const Key key = SpecialKey(parent, 't', NewId());
  if (!trash->blocks.empty()) transaction.Put(key, *trash);
  return key;
}

void Tree::RemoveFile(const Path& path, const Wait& wait) {
  const std::string what = Describe(path);
  const Place place = Resolve(path, wait);
  if (!place.record) throw NotFound(path);
  if (place.record->IsDirectory())
    throw Error(Code::kFailedPrecondition, what + " is a directory, not a file");
  Key trash_key;
  Record trash;
  Transact(store_, "removing " + what, wait, [&](Transaction& transaction) {
    const auto now = transaction.Get(place.key);
    if (!now && transaction.repeated()) return;
    if (!now) throw NotFound(path);
    if (!now->IsFile()) throw Error(Code::kFailedPrecondition, what + " is a directory, not a file");
    transaction.Remove(place.key);
    trash_key = PutTrash(transaction, place.key.parent, BlocksOf(now->extents, now->block_size), &trash);
  });
  if (!trash.blocks.empty()) collector_.Notice(trash_key, trash);
  collector_.Step(wait);
}

Id Tree::Mark(Id directory, const std::string& what, const Wait& wait) {
  const Id token = NewId();
  Transact(store_, "removing " + what, wait, [&](Transaction& transaction) {
    auto header = transaction.Get(HeaderKey(directory));
    if (!header) throw Error(Code::kNotFound, what + ": no such directory");
    header->id = token;
    transaction.Put(HeaderKey(directory), *header);
  });
  return token;
}

void Tree::Unmark(Id directory, Id token, const Wait& wait) noexcept {
  try {
    Transact(store_, "keeping a directory", wait, [&](Transaction& transaction) {
      auto header = transaction.Get(HeaderKey(directory));
      if (!header || header->id != token) return;
      header->id = 0;
      transaction.Put(HeaderKey(directory), *header);
    });
  } catch (const std::exception&) {  // the next one who creates something in it takes the mark away
  }
}

bool Tree::IsEmpty(Id directory, const Wait& wait) {
  bool empty = true;
  store_.Scan(
      directory,
      [&](Key&& key, Record&&) {
        empty = key.parent != directory || IsSpecial(key.name);
        return empty;
      },
      wait);
  return empty;
}

// False if it is not empty, or did not stay so.
bool Tree::RemoveEmpty(const Key& entry, Id directory, const std::string& what, const Wait& wait) {
  const Id token = Mark(directory, what, wait);
  if (!IsEmpty(directory, wait)) {
    Unmark(directory, token, wait);
    return false;
  }
  bool removed = true;
  Transact(store_, "removing " + what, wait, [&](Transaction& transaction) {
    const auto now = transaction.Get({entry, HeaderKey(directory)});
    removed = true;
    if (!now[1] && transaction.repeated()) return;
    if (!now[0] || now[0]->id != directory) throw Error(Code::kNotFound, what + ": no such directory");
    removed = now[1] && now[1]->id == token;
    if (!removed) return;
    transaction.Remove(entry);
    transaction.Remove(HeaderKey(directory));
  });
  return removed;
}

void Tree::RemoveDirectory(const Path& path, const Wait& wait) {
  const std::string what = Describe(path);
  const Place place = Resolve(path, wait);
  if (!place.record) throw NotFound(path);
  if (!place.record->IsDirectory()) throw NotADirectory(path);
  if (path.empty()) throw Error(Code::kFailedPrecondition, what + " is the root, which cannot be removed");
  if (!RemoveEmpty(place.key, place.record->id, what, wait)) {
    throw Error(Code::kFailedPrecondition, what + " is not empty");
  }
  collector_.Step(wait);
}

void Tree::RemoveTree(const Path& path, const Wait& wait) {
  const std::string what = Describe(path);
  const Place place = Resolve(path, wait);
  if (!place.record) throw NotFound(path);
  if (!place.record->IsDirectory()) return RemoveFile(path, wait);
  if (path.empty()) throw Error(Code::kFailedPrecondition, what + " is the root, which cannot be removed");
  const Id directory = place.record->id;
  const Key doomed_key = SpecialKey(place.key.parent, 'x', directory);
  Record doomed;
  doomed.kind = Kind::kDoomed;
  doomed.id = directory;
  Transact(store_, "removing " + what, wait, [&](Transaction& transaction) {
    const auto now = transaction.Get(place.key);
    if (!now && transaction.repeated()) return;
    if (!now || now->id != directory) throw NotFound(path);
    transaction.Put(doomed_key, doomed);
    transaction.Remove(place.key);
  });
  try {
    RemoveDoomed(doomed_key, directory, wait);
  } catch (const Error& error) {
    if (error.code() == Code::kCancelled) throw;
    collector_.Notice(doomed_key, doomed);  // it has gone, as was asked for; its content follows later
  }
  collector_.Step(wait);
}

void Tree::RemoveDoomed(const Key& key, Id directory, const Wait& wait) {
  const std::string what = "igfs://" + store_.target().ToString() + ": a directory that was removed";
  try {
    for (int attempt = 0; attempt < kRemoveAttempts; ++attempt) {
      RemoveContent(directory, wait);
      if (RemoveEmpty(key, directory, what, wait)) return;
    }
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound || error.server_status() != 0) throw;
    store_.Remove(key, wait);  // another process was faster
  }
}

// Files first become trash, so that those who have them open can go on reading; subdirectories are emptied in
// turn.
void Tree::RemoveContent(Id directory, const Wait& wait) {
  for (;;) {
    std::vector<Key> files;
    std::vector<std::pair<Key, Id>> directories;
    store_.Scan(
        directory,
        [&](Key&& key, Record&& record) {
          if (key.parent == directory && !IsSpecial(key.name)) {
            if (record.IsDirectory()) {
              directories.emplace_back(std::move(key), record.id);
            } else {
              files.push_back(std::move(key));
            }
          } else if (key.parent == directory && record.kind == Kind::kDoomed) {
            directories.emplace_back(std::move(key),
                                     record.id);  // left by a process that died while removing it
          }
          return files.size() + directories.size() < kEntriesAtOnce;
        },
        wait);
    if (files.empty() && directories.empty()) return;
    RemoveFiles(files, wait);
    for (const auto& [key, child] : directories) RemoveDoomed(key, child, wait);
  }
}

void Tree::RemoveFiles(const std::vector<Key>& keys, const Wait& wait) {
  for (std::size_t begin = 0; begin < keys.size(); begin += kFilesPerTransaction) {
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<Key> some(
        first, first + static_cast<std::ptrdiff_t>(std::min(kFilesPerTransaction, keys.size() - begin)));
    std::vector<std::pair<Key, Record>> trashed;
    Transact(store_, "removing files", wait, [&](Transaction& transaction) {
      trashed.clear();
      const auto records = transaction.Get(some);
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (!records[i]) continue;
        transaction.Remove(some[i]);
        Record trash;
        Key key = PutTrash(transaction, some[i].parent, BlocksOf(records[i]->extents, records[i]->block_size),
                           &trash);
        if (!trash.blocks.empty()) trashed.emplace_back(std::move(key), std::move(trash));
      }
    });
    for (const auto& [key, record] : trashed) collector_.Notice(key, record);
  }
}

void Tree::Tend(const Wait& wait) {
  try {
    store_.ScanAll([] {}, [&](Key&& key, Record&& record) { collector_.Notice(key, record); }, wait);
  } catch (const Error& error) {
    if (!Store::IsMissingCache(error)) throw;
  }
  collector_.Step(wait);
}

void Tree::NeedRoom(std::uint64_t bytes, const std::string& what, const Wait& wait) {
  if (room_.Take(bytes, wait)) return;
  collector_.FreeEarly(wait);
  if (room_.Take(bytes, wait)) return;
  throw Error(Code::kResourceExhausted, what + ": no memory for it in the cluster: " + room_.Describe() +
                                            "; remove files, or give the region more");
}

void Tree::Abandon(const Key& writing_key, const Record& writing, const Wait& wait) noexcept {
  try {
    collector_.Abandon(writing_key, writing, wait);
  } catch (const std::exception&) {  // the record remains, and with it the way to find the blocks
  }
}

}  // namespace igfs
}  // namespace ignite_strategy
