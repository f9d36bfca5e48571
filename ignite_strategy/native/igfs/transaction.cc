#include "native/igfs/transaction.h"

#include <algorithm>
#include <random>

#include "native/igfs/lookup.h"

namespace ignite_strategy {
namespace igfs {
namespace {

namespace op {
constexpr std::int16_t kPut = 1001, kRemove = 1016, kStart = 4000, kEnd = 4001;
}  // namespace op

constexpr std::uint8_t kOptimistic = 0, kSerializable = 2;
// After this the server rolls back by itself, should this client vanish without closing its connection.
constexpr std::int64_t kServerTimeoutMillis = 20'000;
constexpr Millis kRollbackLimit{500};
constexpr int kConflictAttempts = 40;
constexpr Millis kConflictLimit{60'000};  // a busy server may need 20 s to give up an attempt
constexpr int kBrokenAttempts = 4;

// Server errors of a commit that lost against somebody else, or against a change of topology.
bool IsConflict(const Error& error) {
  if (error.server_status() == 0) return false;
  for (const char* sign :
       {"conflict", "Failed to prepare transaction", "TransactionOptimistic", "rolled back",
        "TransactionRollback", "Failed to acquire lock within", "ClusterTopology", "Failed to commit"}) {
    if (error.message().find(sign) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void PauseBeforeRetry(int attempt, const Wait& wait, const char* doing) {
  thread_local std::minstd_rand random(std::random_device{}());
  const int most = std::min(64, 1 << std::min(attempt, 6));
  wait.Sleep(Millis(std::uniform_int_distribution<int>(1, most)(random)), doing);
}

Transaction::Transaction(const Store& store, Connection& connection, std::string doing, bool repeated,
                         const Wait& wait)
    : store_(store),
      connection_(connection),
      doing_(std::move(doing)),
      repeated_(repeated),
      wait_(wait.Within(connection.timeouts().request)) {
  Writer request;
  request.Put(kOptimistic).Put(kSerializable).Put(kServerTimeoutMillis).PutNull();
  const Response response = connection_.Call(op::kStart, request, doing_, wait_);
  id_ = response.payload().Get<std::int32_t>();
  open_ = true;
}

Transaction::~Transaction() {
  if (!open_ || connection_.broken() || connection_.outstanding() > 0)
    return;  // the server rolls back on closing
  try {
    End(false, Wait::For(kRollbackLimit));
  } catch (const Error&) {
  }
}

std::vector<std::optional<Record>> Transaction::Get(const std::vector<Key>& keys) {
  Writer request;
  store_.PutTreePrefix(request, id_);
  return GetRecords(connection_, std::move(request), keys, doing_, wait_);
}

// Sends all writes, then reads all answers: one round trip.
void Transaction::Commit() {
  if (writes_.empty()) return;
  for (const auto& [key, record] : writes_) {
    Writer request;
    store_.PutTreePrefix(request, id_);
    PutKey(request, key);
    if (record) PutRecord(request, *record);
    connection_.Send(record ? op::kPut : op::kRemove, request, wait_);
  }
  std::optional<Error> failure;
  while (connection_.outstanding() > 0) {  // all answers, so that the connection stays usable after an error
    const Response response = connection_.Receive(wait_);
    if (response.status != 0) failure = connection_.ServerError(response, doing_);
  }
  if (failure) throw *failure;
  End(true, wait_);
}

void Transaction::End(bool commit, const Wait& wait) {
  open_ = false;
  Writer request;
  request.Put(id_).PutBool(commit);
  connection_.Call(op::kEnd, request, doing_, wait);
}

void Transact(Store& store, const std::string& doing, const Wait& wait,
              const std::function<void(Transaction&)>& body) {
  bool repeated = false, created = false;
  const Clock::time_point begun = Clock::now();
  for (int attempt = 1, broken = 0;; ++attempt) {
    Lease lease = store.Connect(wait, broken > 0);
    try {
      Transaction transaction(store, *lease, doing, repeated, wait);
      body(transaction);
      transaction.Commit();
      return;
    } catch (const Error& error) {
      if (Store::IsMissingCache(error) && !created) {
        created = true;  // the cluster was restarted without its caches
        store.Create(wait, true);
        continue;
      }
      const bool lost = Store::IsBroken(error);
      if (lost) lease.Discard();
      if (lost ? ++broken >= kBrokenAttempts : !IsConflict(error) || attempt >= kConflictAttempts) throw;
      if (!lost && Clock::now() - begun > kConflictLimit) throw;
      repeated = repeated || lost || error.message().find("conflict") == std::string::npos;
    }
    PauseBeforeRetry(attempt, wait, doing.c_str());
  }
}

}  // namespace igfs
}  // namespace ignite_strategy
