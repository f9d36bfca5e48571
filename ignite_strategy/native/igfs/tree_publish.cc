// Tree: renaming, and publishing what was written.
#include <algorithm>

#include "native/igfs/tree.h"

namespace ignite_strategy {
namespace igfs {
namespace {

// Somebody else changed the tree between looking and acting often enough to give up.
constexpr int kRenameAttempts = 20;

bool IsPrefix(const Path& prefix, const Path& path) {
  return prefix.size() <= path.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

}  // namespace

void Tree::Rename(const Path& from, const Path& to, const Wait& wait) {
  if (from.empty() || to.empty()) {
    throw Error(Code::kInvalidArgument, Describe({}) + ": the root can neither be renamed nor replaced");
  }
  std::optional<Record> moved;
  for (int attempt = 1; attempt <= kRenameAttempts; ++attempt) {
    if (TryRename(from, to, &moved, attempt == kRenameAttempts, wait)) {
      collector_.Step(wait);
      return;
    }
    PauseBeforeRetry(attempt, wait, "renaming");
  }
  throw Error(Code::kAborted, Describe(from) + " could not be renamed to " + Describe(to) +
                                  ": other processes keep changing the same entries");
}

// The directories on the way from the root to `to`. Throws if `moved` is one of them: a cycle would cut it
// off from the root.
std::vector<Place> Tree::WayTo(const Path& to, Id moved, const Path& from, const Wait& wait) {
  std::vector<Place> way;
  Walk(to, &way, wait);
  for (const Place& place : way) {
    if (place.record->id != moved) continue;
    throw Error(Code::kInvalidArgument, Describe(from) + " cannot be moved into itself, to " + Describe(to));
  }
  return way;
}

// False if the entries changed between looking and acting. `moved` is the source's record once a commit may
// have arrived: the server may still be at it, and other calls see its entries one after the other.
bool Tree::TryRename(const Path& from, const Path& to, std::optional<Record>* moved, bool last,
                     const Wait& wait) {
  const std::string what = "renaming " + Describe(from) + " to " + Describe(to);
  const Place source = Resolve(from, wait);
  if (!source.record && *moved) {
    if (Resolve(to, wait).record == *moved) return true;
    if (!last) return false;  // it has left its old place, and may be about to arrive at the new one
  }
  if (!source.record) throw NotFound(from);
  if (from == to) return true;
  if (source.record->IsDirectory() && IsPrefix(from, to)) {
    throw Error(Code::kInvalidArgument, Describe(from) + " cannot be moved into itself, to " + Describe(to));
  }
  const Place target = Resolve(to, wait);
  const bool moves_directory = source.record->IsDirectory();
  if (target.record && moves_directory && !target.record->IsDirectory()) throw NotADirectory(to);
  if (target.record && !moves_directory && target.record->IsDirectory()) {
    throw Error(Code::kFailedPrecondition, Describe(to) + " is a directory and cannot be replaced by a file");
  }
  // Only an empty directory may be replaced: it is marked like one that is removed.
  const Id replaced = target.record && moves_directory ? target.record->id : 0;
  if (replaced == source.record->id) return false;
  const Id token = replaced == 0 ? 0 : Mark(replaced, Describe(to), wait);
  if (replaced != 0 && !IsEmpty(replaced, wait)) {
    Unmark(replaced, token, wait);
    throw Error(Code::kFailedPrecondition, Describe(to) + " is not empty and cannot be replaced");
  }
  bool done = false;
  Key trash_key;
  Record trash;
  try {
    Transact(store_, what, wait, [&](Transaction& transaction) {
      trash = Record{};
      if (transaction.repeated()) *moved = source.record;
      std::vector<Place> way;
      if (moves_directory && source.key.parent != target.key.parent) {
        const Key moves_key{kSystem, "moves"};
        Record moves = transaction.Get(moves_key).value_or(Record{});
        moves.kind = Kind::kMoves;
        ++moves.id;
        way = WayTo(to, source.record->id, from, wait);
        transaction.Put(moves_key, moves);
        done = way.empty() || way.back().record->id == target.key.parent;
        if (!done) return;
      }
      std::vector<Key> keys{source.key, target.key, HeaderKey(target.key.parent)};
      if (replaced != 0) keys.push_back(HeaderKey(replaced));
      // Read within the transaction as well. A move that is just being committed shows its entries one after
      // the other: what was seen of the way may be older than the count of moves.
      const std::size_t first_of_way = keys.size();
      for (const Place& place : way) keys.push_back(place.key);
      const auto now = transaction.Get(keys);
      if (!now[0] && transaction.repeated() && now[1] && now[1]->id == source.record->id) {
        done = true;
        return;
      }
      const auto same = [](const std::optional<Record>& a, const std::optional<Record>& b) {
        return a.has_value() == b.has_value() &&
               (!a || (a->kind == b->kind && (a->IsFile() || a->id == b->id)));
      };
      done = same(now[0], source.record) && (same(now[1], target.record) || (!moves_directory && !now[1]));
      for (std::size_t i = 0; i < way.size(); ++i) done = done && same(now[first_of_way + i], way[i].record);
      if (!done) return;
      if (replaced != 0) {
        done = now[3] && now[3]->id == token;
        if (!done) return;
        transaction.Remove(HeaderKey(replaced));
      }
      NeedDirectory(transaction, target.key.parent, now[2], Describe(to));
      if (now[1] && now[1]->IsFile()) {
        trash_key = PutTrash(transaction, target.key.parent, Unused(*now[1], *now[0]), &trash);
      }
      transaction.Put(target.key, *now[0]);
      transaction.Remove(source.key);
    });
  } catch (const std::exception&) {
    if (token != 0) Unmark(replaced, token, wait);
    throw;
  }
  if (!done && token != 0) Unmark(replaced, token, wait);
  if (!trash.blocks.empty()) collector_.Notice(trash_key, trash);
  return done;
}

void Tree::Publish(const Key& key, const Record& record, Expect expect, const std::optional<Record>& seen,
                   const std::optional<std::pair<Key, Record>>& writing, const std::string& what,
                   const Wait& wait) {
  Key trash_key;
  Record trash;
  Transact(store_, "publishing " + what, wait, [&](Transaction& transaction) {
    trash = Record{};
    std::vector<Key> keys{HeaderKey(key.parent), key};
    if (writing) keys.push_back(writing->first);
    const auto now = transaction.Get(keys);
    if (transaction.repeated() && now[1] == record) return;
    NeedDirectory(transaction, key.parent, now[0], what);
    if (now[1] && !now[1]->IsFile()) throw Error(Code::kFailedPrecondition, what + " is a directory");
    if (expect == Expect::kSame && !(now[1] == seen)) {
      throw Error(Code::kAborted,
                  what + (now[1] ? " was changed by another writer" : " was removed or renamed") +
                      " while it was being written: what was published stays, the rest is dropped");
    }
    if (writing && (!now[2] || now[2]->id != writing->second.id)) {
      throw Error(Code::kAborted,
                  what +
                      ": its writer was silent for longer than IGFS_WRITER_LEASE_SECONDS and was "
                      "taken for dead; what it had not published is gone");
    }
    if (now[1]) trash_key = PutTrash(transaction, key.parent, Unused(*now[1], record), &trash);
    transaction.Put(key, record);
    if (writing) transaction.Remove(writing->first);
  });
  if (!trash.blocks.empty()) collector_.Notice(trash_key, trash);
  collector_.Step(wait);
}

}  // namespace igfs
}  // namespace ignite_strategy
