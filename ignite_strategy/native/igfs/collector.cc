#include "native/igfs/collector.h"

#include <algorithm>
#include <utility>

#include "native/igfs/transaction.h"

namespace ignite_strategy {
namespace igfs {
namespace {

// What one step may do, so that the call which it rides on stays quick.
constexpr std::uint64_t kBlocksPerStep = 1024;
constexpr int kItemsPerStep = 16;
constexpr Millis kStepLimit{2000};
// After a failure the next try waits, twice as long each time.
constexpr Millis kFirstRetry{500}, kLongestRetry{30'000};
// Beyond this, further records wait for another listing.
constexpr std::size_t kMaxItems = 100'000;
// Content that was replaced or removed stays for so long even if there is no room for anything else.
constexpr Millis kEarlyGrace{10'000};
constexpr Millis kEarlyLimit{15'000};
// The tree is not looked through more often than that.
constexpr Millis kEarlyPause{2000};

}  // namespace

Collector::Collector(Store& store, RemoveDoomed remove_doomed)
    : store_(store), remove_doomed_(std::move(remove_doomed)) {}

void Collector::Notice(const Key& key, const Record& record) {
  if (record.kind != Kind::kTrash && record.kind != Kind::kWriting && record.kind != Kind::kDoomed) return;
  const bool writing = record.kind == Kind::kWriting;
  const Millis patience = writing ? store_.options().writer_lease : store_.options().grace;
  const auto now = Clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = items_.find(key);
  if (known != items_.end()) {
    if (known->second.record.id == record.id) return;  // seen before, and unchanged
    known->second = Item{record, now, now + patience};
  } else if (items_.size() < kMaxItems) {
    items_.emplace(key, Item{record, now, now + patience});
  }
}

std::optional<std::pair<Key, Collector::Item>> Collector::TakeDue() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = Clock::now();
  const auto due =
      std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.second.due <= now; });
  if (due == items_.end()) return std::nullopt;
  std::pair<Key, Item> taken(due->first, std::move(due->second));
  items_.erase(due);
  return taken;
}

void Collector::Again(const Key& key, const Item& item) {
  const std::lock_guard<std::mutex> lock(mutex_);
  items_[key] = item;
}

void Collector::Abandon(const Key& key, const Record& writing, const Wait& wait) {
  std::uint64_t budget = kBlocksPerStep;
  BuryWriter(key, writing, &budget, wait);
}

// Makes trash due as soon as it may be. Returns when the last of it is.
std::optional<Clock::time_point> Collector::HastenTrash() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::optional<Clock::time_point> last;
  for (auto& [key, item] : items_) {
    if (item.record.kind == Kind::kWriting || item.failures > 0) continue;
    item.due = std::min(item.due, item.seen + kEarlyGrace);
    last = std::max(last.value_or(item.due), item.due);
  }
  return last;
}

void Collector::FreeEarly(const Wait& wait) {
  // Not for ever: another thread may have held it when this process was forked.
  const std::unique_lock<std::timed_mutex> lock(early_, kEarlyLimit);
  if (!lock) return;
  if (Clock::now() < early_at_ + kEarlyPause && !HastenTrash()) return;
  const Wait limited = wait.Within(kEarlyLimit);
  try {
    store_.ScanAll([] {}, [&](Key&& key, Record&& record) { Notice(key, record); }, limited);
    for (auto last = HastenTrash(); last; last = HastenTrash()) {
      Step(limited);
      if (Clock::now() < *last) limited.Sleep(Millis(100), "waiting for removed files to be freed");
    }
  } catch (const Error& error) {
    if (error.code() != Code::kDeadlineExceeded || Clock::now() >= wait.deadline) throw;
  }
  early_at_ = Clock::now();
}

void Collector::Step(const Wait& wait) noexcept {
  std::uint64_t budget = kBlocksPerStep;
  for (int items = 0; items < kItemsPerStep && budget > 0; ++items) {
    auto due = TakeDue();
    if (!due) return;
    Item& item = due->second;
    try {
      Work(due->first, item.record, &budget, wait.Within(kStepLimit));
    } catch (const std::exception&) {
      const Millis pause = std::min(kLongestRetry, kFirstRetry * (1 << std::min(item.failures++, 10)));
      item.due = Clock::now() + pause;
      Again(due->first, item);
      return;
    }
  }
}

void Collector::Work(const Key& key, Record record, std::uint64_t* budget, const Wait& wait) {
  if (record.kind == Kind::kTrash) return CollectTrash(key, std::move(record), budget, wait);
  if (record.kind == Kind::kWriting) return BuryWriter(key, record, budget, wait);
  remove_doomed_(key, record.id, wait);
}

void Collector::CollectTrash(const Key& key, Record record, std::uint64_t* budget, const Wait& wait) {
  while (!record.blocks.empty()) {
    BlockRange& range = record.blocks.back();
    const std::uint64_t end = std::min(range.end, range.first + *budget);
    store_.RemoveBlocks({range.content, range.first, end}, wait);
    *budget -= end - range.first;
    range.first = end;
    if (range.first == range.end) record.blocks.pop_back();
    if (*budget == 0 && !record.blocks.empty()) return Again(key, {record, Clock::now(), Clock::now()});
  }
  store_.Remove(key, wait);
}

// Turns a writer's record into trash, in one step: should the writer be alive after all, its next publishing
// notices that its blocks are gone, and fails; and should it have published, its record is gone.
void Collector::BuryWriter(const Key& key, const Record& record, std::uint64_t* budget, const Wait& wait) {
  const Key trash_key = SpecialKey(key.parent, 't', NewId());
  Record trash = record;
  trash.kind = Kind::kTrash;
  bool buried = false;
  Transact(store_, "collecting what a writer left", wait, [&](Transaction& transaction) {
    const auto now = transaction.Get(key);
    buried = now && now->id == record.id;
    if (!buried) return;
    transaction.Put(trash_key, trash);
    transaction.Remove(key);
  });
  if (buried) CollectTrash(trash_key, std::move(trash), budget, wait);
}

}  // namespace igfs
}  // namespace ignite_strategy
