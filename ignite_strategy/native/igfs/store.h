// The two caches of one file system: connections to them, their creation, plain reads, listings, block
// removal.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_STORE_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_STORE_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "native/igfs/records.h"
#include "native/igfs/target.h"
#include "native/wire/connection.h"
#include "native/wire/pool.h"

namespace ignite_strategy {
namespace igfs {

// The status of Ignite's answer for a cache that does not exist.
constexpr std::int32_t kCacheDoesNotExist = 1000;

// Is this block there, with at least so many bytes? 0 = only whether it is there, which moves no bytes.
struct BlockQuestion {
  Id content = 0;
  std::uint64_t index = 0;
  std::uint64_t size = 0;
};
enum class Stored : std::uint8_t { kNot, kTooShort, kWhole };

// Thread-safe.
class Store {
 public:
  explicit Store(Target target);

  // A connection to one of the target's nodes that speaks transactions (Ignite >= 2.8). The node that
  // answered last is asked first; a node that does not answer is passed over. `fresh`: not one that was idle.
  Lease Connect(const Wait& wait, bool fresh = false);

  // Runs `body(Connection&)`, which must be idempotent, and once more on a new connection if the first one
  // broke: a connection that died while idle is not the caller's concern.
  template <typename Body>
  auto Run(const Wait& wait, Body body) -> decltype(body(std::declval<Connection&>())) {
    for (int attempt = 1;; ++attempt) {
      Lease lease = Connect(wait, attempt > 1);
      try {
        return body(*lease);
      } catch (const Error& error) {
        if (error.server_status() == 0) lease.Discard();
        if (attempt >= kAttempts || !IsBroken(error)) throw;
      }
    }
  }

  // The records of several keys, asked for together.
  std::vector<std::optional<Record>> Get(const std::vector<Key>& keys, const Wait& wait);
  // Calls `found` for everything in the partition of `parent`, whatever its parent, page by page, until it
  // returns false.
  void Scan(Id parent, const std::function<bool(Key&&, Record&&)>& found, const Wait& wait);
  // Calls `begin` and then `found` for every record; both again if the connection breaks. What changes
  // meanwhile may be seen or not, and what is renamed meanwhile may be seen twice or not at all.
  void ScanAll(const std::function<void()>& begin, const std::function<void(Key&&, Record&&)>& found,
               const Wait& wait);
  // The same for the keys of all blocks; moves all their bytes, for the protocol has no other way.
  void ScanBlocks(const std::function<void(Id, std::uint64_t)>& found, const Wait& wait);
  std::uint64_t CountBlocks(const Wait& wait);
  // The answers, in order.
  std::vector<Stored> LookForBlocks(const std::vector<BlockQuestion>& questions, const Wait& wait);
  // Single records, outside transactions.
  void Put(const Key& key, const Record& record, const Wait& wait);
  void Remove(const Key& key, const Wait& wait);
  void RemoveBlocks(const BlockRange& range, const Wait& wait);

  // Creates what is missing: key type, caches, root. Cheap when this process did so before and `again` is
  // false.
  void Create(const Wait& wait, bool again = false);

  // `i32 cache id, u8 flags`, with the transaction's id for one.
  void PutTreePrefix(Writer& writer, std::optional<std::int32_t> transaction = std::nullopt) const;
  void PutBlocksPrefix(Writer& writer) const;

  const std::string& blocks_cache() const { return blocks_; }
  const Target& target() const { return target_; }
  const Options& options() const { return target_.options; }

  // The connection is gone, or the node behind it: another one may do.
  static bool IsBroken(const Error& error) {
    return error.code() == Code::kUnavailable && error.server_status() == 0;
  }
  static bool IsMissingCache(const Error& error) { return error.server_status() == kCacheDoesNotExist; }

 private:
  static constexpr int kAttempts = 3;

  Lease ConnectTo(const Endpoint& endpoint, const Wait& wait, bool fresh);
  std::int32_t Partitions(Connection& connection, const Wait& wait);
  bool ScanPartition(Connection& connection, Id parent, std::int32_t partitions,
                     const std::function<bool(Key&&, Record&&)>& found, const Wait& wait);
  void CreateCache(Connection& connection, const std::string& name, bool transactional, const Wait& wait);
  void CheckFormat(Connection& connection, const Wait& wait);

  const Target target_;
  const Timeouts timeouts_;
  const std::string tree_, blocks_;
  const std::int32_t tree_id_, blocks_id_;
  std::atomic<std::size_t> preferred_{0};
  std::atomic<bool> created_{false};
  std::atomic<std::int32_t> partitions_{0};  // of the tree cache; 0 = not asked for yet
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_STORE_H_
