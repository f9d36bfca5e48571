// Frees blocks that no file refers to any more, in small steps beside ordinary calls.
//
// Nothing is decided by comparing the clocks of two hosts: a record is acted upon when this process has seen
// it unchanged for as long as the rule says, by its own steady clock. What this process threw away itself it
// has seen from the start; what others left behind it sees in listings.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_COLLECTOR_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_COLLECTOR_H_

#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "native/igfs/records.h"
#include "native/igfs/store.h"

namespace ignite_strategy {
namespace igfs {

// Thread-safe.
class Collector {
 public:
  // `remove_doomed` removes a directory's content and then its kDoomed record.
  using RemoveDoomed = std::function<void(const Key&, Id, const Wait&)>;
  Collector(Store& store, RemoveDoomed remove_doomed);

  // Notes a bookkeeping record: kTrash, kWriting or kDoomed. Others are ignored.
  void Notice(const Key& key, const Record& record);
  // Removes what a writer has declared, unless that has been published, perhaps without the writer's
  // knowledge.
  void Abandon(const Key& key, const Record& writing, const Wait& wait);
  // Memory is short: frees what was replaced or removed and is not due yet, as soon as this process has known
  // it for kEarlyGrace; looks for it in the whole tree first. Waits for that, some 15 s at the most.
  void FreeEarly(const Wait& wait);
  // Works on what is due, for a bounded number of blocks. Never throws: a later call goes on.
  void Step(const Wait& wait) noexcept;

 private:
  struct Item {
    Record record;
    Clock::time_point seen, due;
    int failures = 0;
  };

  std::optional<Clock::time_point> HastenTrash();
  std::optional<std::pair<Key, Item>> TakeDue();
  void Work(const Key& key, Record record, std::uint64_t* budget, const Wait& wait);
  void CollectTrash(const Key& key, Record record, std::uint64_t* budget, const Wait& wait);
  void BuryWriter(const Key& key, const Record& record, std::uint64_t* budget, const Wait& wait);
  void Again(const Key& key, const Item& item);

  Store& store_;
  const RemoveDoomed remove_doomed_;
  std::mutex mutex_;
  std::map<Key, Item> items_;
  std::timed_mutex early_;      // held by who frees early
  Clock::time_point early_at_;  // when that ended last
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_COLLECTOR_H_
