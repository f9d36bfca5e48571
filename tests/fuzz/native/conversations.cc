// What a client does, from the handshake on, with a peer whose answers are damaged.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/block_reader.h"
#include "native/igfs/store.h"
#include "native/scan/config.h"
#include "native/scan/cursor.h"
#include "native/scan/discover.h"
#include "native/scan/fetcher.h"
#include "native/scan/losses.h"
#include "native/scan/topology.h"
#include "native/wire/connection.h"
#include "native/wire/pool.h"
#include "tests/fuzz/native/parsers.h"
#include "tests/fuzz/native/peer.h"
#include "tests/fuzz/native/rows.h"

namespace ignite_strategy {
namespace {

constexpr Millis kLimit{10'000};
// Of a file, that a caller reads.
constexpr std::uint64_t kReadBytes = 8192;

void Pass(const ScanConfig& config) {
  const Wait wait = Wait::For(kLimit);
  const Endpoint& endpoint = config.endpoints.front();
  const std::unique_ptr<Connection> connection = Connection::Open(endpoint, config.timeouts, wait);
  Query query{config.cache, -1, false, 4};
  if (config.sql) query.sql = &*config.sql;
  TypeCache types([&](std::int32_t id) { return FetchType(endpoint, config.timeouts, id, wait); });
  RowDecoder decoder(config.columns, &types, "these rows", config.value_type);
  if (config.sql) decoder.SetSqlColumns(config.sql->columns);
  Cursor cursor(connection.get(), query, wait);
  std::optional<Error> error;
  while (!cursor.finished() && !error) {
    const PageData page = cursor.Receive(wait);
    try {
      MakeBatches(config, decoder, page.Rows(), page.rows);
    } catch (const Error& failure) {
      error = failure;
    }
  }
  cursor.Close(kLimit);
  if (error) throw *error;
}

// Asks who owns the partitions twice: now, and with a node that has left since.
void Owners(const ScanConfig& config) {
  const Wait wait = Wait::For(kLimit);
  const std::unique_ptr<Connection> connection =
      Connection::Open(config.endpoints.front(), config.timeouts, wait);
  try {
    const CacheTopology now = TakeTopology(*connection, config.cache, wait);
    CacheTopology before = now;
    for (std::int32_t& node : before.primary) node = static_cast<std::int32_t>(before.nodes.size());
    before.nodes.push_back({"00000000-0000-0001-0000-000000000002", {}});
    before.version.major = 1;
    ObserveOwners(*connection, config.cache, now, "", wait);
    ObserveOwners(*connection, config.cache, now, Remember(before, {}, connection->endpoint()), wait);
    for (std::int32_t partition = -1; partition < 3; ++partition) now.Primary(partition);
    NodesGoneSince(*connection, 1, wait);
  } catch (const Error&) {
    ForgetOwners(config.cache);
    throw;
  }
  ForgetOwners(config.cache);
}

igfs::Target FileSystem(const ScanConfig& config) {
  igfs::Target target;
  target.endpoints = {config.endpoints.front()};
  target.file_system = config.cache;
  return target;
}

void Directory(const ScanConfig& config) {
  const Wait wait = Wait::For(kLimit);
  igfs::Store store(FileSystem(config));
  std::size_t found = 0;
  store.Scan(
      igfs::kRoot,
      [&](igfs::Key&& key, igfs::Record&& record) {
        found += key.name.size() + record.size();
        return true;
      },
      wait);
}

void File(const ScanConfig& config) {
  const Wait wait = Wait::For(kLimit);
  igfs::Store store(FileSystem(config));
  const std::vector<std::optional<igfs::Record>> records = store.Get({igfs::Key{igfs::kRoot, "file"}}, wait);
  if (!records.front() || records.front()->kind != igfs::Kind::kFile) {
    throw Error(Code::kNotFound, "no file");
  }
  const igfs::Record& file = *records.front();
  const std::uint64_t size = std::min<std::uint64_t>(file.size(), kReadBytes);
  std::string data(size, '\0');
  igfs::BlockReader(store).Read(file, 0, size, data.data(), 1, "/file", wait);
}

void Do(int kind, const ScanConfig& config) {
  switch (kind) {
    case kDiscovery: {
      Discover(config.endpoints.front(), config.timeouts, config.cache, false, "", true, Wait::For(kLimit));
      break;
    }
    case kPass:
    case kStatement:
      Pass(config);
      break;
    case kOwners:
      Owners(config);
      break;
    case kDirectory:
      Directory(config);
      break;
    default:
      File(config);
  }
}

}  // namespace

void Talk(int kind, const std::vector<Bytes>& parts, std::size_t damaged, const Bytes& other,
          Chance& chance) {
  std::vector<Answer> answers;
  for (std::size_t i = 1; i + 1 < parts.size(); i += 2) {
    Answer answer;
    Reader head(parts[i].data(), parts[i].size());
    answer.op = head.Get<std::int32_t>();
    answer.request.assign(head.at(), head.at() + head.left());
    answer.body = parts[i + 1];
    answers.push_back(std::move(answer));
  }
  const auto damage = [&](Bytes& message) {
    if (chance.Below(32) == 0) return Damage(message, other, chance);  // its length, perhaps
    Bytes body(message.begin() + 4, message.end());
    Damage(body, other, chance);
    const auto size = static_cast<std::int32_t>(body.size());
    message.resize(4);
    std::memcpy(message.data(), &size, sizeof size);
    message.insert(message.end(), body.begin(), body.end());
  };
  const ScanConfig config = ScanConfig::Parse(std::string(parts[0].begin(), parts[0].end()));
  const Peer peer(std::move(answers), damaged == 0 ? parts.size() : damaged - 1, damage);
  try {
    Do(kind, config);
  } catch (...) {
    Pool::Process().Clear();
    throw;
  }
  Pool::Process().Clear();
}

}  // namespace ignite_strategy
