// One optimistic, serializable transaction on the tree cache.
//
// Serializable: the commit fails if anything that was read has changed since. Optimistic: no lock is held
// while this client thinks, so a client that dies in the middle blocks nobody. Keys of one directory live in
// one partition, so most transactions touch one.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_TRANSACTION_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_TRANSACTION_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/records.h"
#include "native/igfs/store.h"

namespace ignite_strategy {
namespace igfs {

class Transaction {
 public:
  // `doing`: for error messages.
  Transaction(const Store& store, Connection& connection, std::string doing, bool repeated, const Wait& wait);
  // Rolls back what was not committed.
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  std::vector<std::optional<Record>> Get(const std::vector<Key>& keys);
  std::optional<Record> Get(const Key& key) { return std::move(Get(std::vector<Key>{key}).front()); }
  // Writes happen at the commit, in this order: put the new name before removing the old one, so that nobody
  // who looks during the commit finds neither.
  void Put(Key key, Record record) { writes_.emplace_back(std::move(key), std::move(record)); }
  void Remove(Key key) { writes_.emplace_back(std::move(key), std::nullopt); }
  void Commit();

  // An attempt before this one may have been committed although its answer never came.
  bool repeated() const { return repeated_; }

 private:
  void End(bool commit, const Wait& wait);

  const Store& store_;
  Connection& connection_;
  const std::string doing_;
  const bool repeated_;
  const Wait wait_;
  std::int32_t id_ = 0;
  bool open_ = false;
  std::vector<std::pair<Key, std::optional<Record>>> writes_;
};

// Waits a moment, longer after each attempt, before what lost against somebody else is tried again.
void PauseBeforeRetry(int attempt, const Wait& wait, const char* doing);

// Runs `body(Transaction&)` and commits what it wrote; again, with a growing pause, when somebody else
// changed what it read or the connection broke. `body` may throw: nothing is written then.
void Transact(Store& store, const std::string& doing, const Wait& wait,
              const std::function<void(Transaction&)>& body);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_TRANSACTION_H_
