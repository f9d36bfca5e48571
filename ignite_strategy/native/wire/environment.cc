#include "native/wire/environment.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "native/wire/error.h"
#include "native/wire/json.h"
#include "native/wire/security.h"

namespace ignite_strategy {

Partitions ReadJsonPartitions(JsonReader* json, const std::string& name);  // partitions.cc

namespace {

constexpr std::size_t kMaxAssignmentBytes = 16u << 20;
// A node makes room for a whole page before it fills it: far more than this ends its Java, and with it its
// data.
constexpr std::int64_t kMostPageRows = 1'000'000;
constexpr const char* kAssignment = "IGNITE_STRATEGY_PARTITIONS";

[[noreturn]] void Fail(const std::string& name, const std::string& value, const std::string& why) {
  throw Error(Code::kInvalidArgument, NameAndValue(name, value) + ": " + why);
}

// A variable that is set; an empty one is an error, because ignoring it would read something else than
// intended.
std::optional<std::string> Get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  if (*value == '\0') Fail(name, value, "the variable is set but empty; unset it or give it a value");
  return std::string(value);
}

std::int64_t Number(const std::string& name, const std::string& value, std::int64_t least,
                    std::int64_t most) {
  const bool digits = value.size() <= 18 && value.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t number = digits ? std::stoll(value) : -1;
  if (number < least || number > most) {
    Fail(name, value, "not an integer between " + std::to_string(least) + " and " + std::to_string(most));
  }
  return number;
}

std::optional<std::uint16_t> GetPort(const char* name) {
  const std::optional<std::string> value = Get(name);
  if (!value) return std::nullopt;
  return static_cast<std::uint16_t>(Number(name, *value, 1, 65535));
}

std::optional<std::string> GetHost(const char* name, const char* port_name) {
  std::optional<std::string> value = Get(name);
  if (!value) return value;
  std::string host = *value;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (std::count(host.begin(), host.end(), ':') == 1) {
    Fail(name, *value, std::string("the host alone is meant; the port belongs in ") + port_name);
  }
  if (host.find_first_of(" \t\r\n/@,[]") != std::string::npos)
    Fail(name, *value, "not a host name or address");
  return host;
}

// Never the value: it is a secret.
std::optional<std::string> GetSecret(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  if (*value == '\0') {
    throw Error(Code::kInvalidArgument, name + " is set but empty; unset it or give it a value");
  }
  return std::string(value);
}

std::optional<bool> GetBool(const char* name) {
  const std::optional<std::string> value = Get(name);
  if (!value) return std::nullopt;
  std::string lower = *value;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (lower == "1" || lower == "true") return true;
  if (lower == "0" || lower == "false") return false;
  Fail(name, *value, "not a truth value (0, 1, true or false)");
}

std::optional<Partitions> GetPart(const char* name) {
  const std::optional<std::string> value = Get(name);
  if (!value || *value == "-1") return std::nullopt;
  return ParsePartitions(*value, name);
}

std::string ReadAssignmentFile(const std::string& value) {
  const std::string path = value.substr(1);
  std::ifstream file(path, std::ios::binary);
  if (path.empty() || !file) Fail(kAssignment, value, "the file cannot be opened");
  std::string text;
  char block[65536];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxAssignmentBytes) {
      Fail(kAssignment, value, "the file has more than " + std::to_string(kMaxAssignmentBytes) + " bytes");
    }
  }
  if (file.bad() || text.empty()) Fail(kAssignment, value, "the file is empty or cannot be read");
  return text;
}

std::optional<std::map<std::string, Partitions>> GetAssignment() {
  const std::optional<std::string> value = Get(kAssignment);
  if (!value) return std::nullopt;
  const bool in_file = value->front() == '@';
  const std::string text = in_file ? ReadAssignmentFile(*value) : *value;
  JsonReader json(text, NameAndValue(kAssignment, *value));
  std::map<std::string, Partitions> assignment;
  json.Expect('{');
  if (!json.Accept('}')) {
    do {
      const std::string cache = json.String();
      json.Expect(':');
      Partitions partitions = ReadJsonPartitions(&json, std::string(kAssignment) + " for cache " + cache);
      if (!assignment.emplace(cache, std::move(partitions)).second)
        json.Fail("cache \"" + cache + "\" appears twice");
    } while (json.Accept(','));
    json.Expect('}');
  }
  json.End();
  return assignment;
}

}  // namespace

DatasetEnvironment ReadDatasetEnvironment() {
  DatasetEnvironment environment;
  environment.cache_name = Get("IGNITE_DATASET_CACHE_NAME");
  environment.host = GetHost("IGNITE_DATASET_HOST", "IGNITE_DATASET_PORT");
  environment.port = GetPort("IGNITE_DATASET_PORT");
  environment.local = GetBool("IGNITE_DATASET_LOCAL");
  environment.part = GetPart("IGNITE_DATASET_PART");
  if (const auto size = Get("IGNITE_DATASET_PAGE_SIZE")) {
    environment.page_size =
        static_cast<std::int32_t>(Number("IGNITE_DATASET_PAGE_SIZE", *size, 1, kMostPageRows));
  }
  environment.assignment = GetAssignment();
  return environment;
}

SecurityEnvironment ReadSecurityEnvironment(const std::vector<std::string>& prefixes) {
  SecurityEnvironment environment;
  // Values that belong together come from one prefix.
  const auto group = [&](const char* name, const char* other) -> const std::string* {
    for (const std::string& prefix : prefixes) {
      if (std::getenv((prefix + name).c_str()) || std::getenv((prefix + other).c_str())) return &prefix;
    }
    return nullptr;
  };
  if (const std::string* prefix = group("CERTFILE", "KEYFILE")) {
    environment.certfile = Get((*prefix + "CERTFILE").c_str());
    environment.keyfile = Get((*prefix + "KEYFILE").c_str());
  }
  if (const std::string* prefix = group("CERT_PASSWORD", "CERT_PASSWORD")) {
    environment.secrets.cert_password = GetSecret(*prefix + "CERT_PASSWORD");
  }
  if (const std::string* prefix = group("USERNAME", "PASSWORD")) {
    environment.secrets.username = GetSecret(*prefix + "USERNAME");
    environment.secrets.password = GetSecret(*prefix + "PASSWORD");
  }
  for (const std::string& prefix : prefixes) {
    if (!environment.cafile) environment.cafile = Get((prefix + "CAFILE").c_str());
    if (!environment.tls) environment.tls = GetBool((prefix + "TLS").c_str());
    if (!environment.verify) environment.verify = GetBool((prefix + "VERIFY").c_str());
    if (!environment.check_hostname)
      environment.check_hostname = GetBool((prefix + "CHECK_HOSTNAME").c_str());
  }
  return environment;
}

FilesystemEnvironment ReadFilesystemEnvironment() {
  return {GetHost("IGFS_HOST", "IGFS_PORT"), GetPort("IGFS_PORT"), Get("IGFS_FS_NAME"), Get("IGFS_BACKEND")};
}

}  // namespace ignite_strategy
