#include "native/wire/security.h"

#include <pthread.h>
#include <sys/stat.h>

#include <map>
#include <utility>

#include "native/wire/environment.h"
#include "native/wire/error.h"
#include "native/wire/tls.h"

namespace ignite_strategy {
namespace {

constexpr std::uint32_t kFormat = 0x49475354;

// Everything of this process that connections share. Never destroyed: TensorFlow's threads may outlive static
// destructors.
struct Process {
  std::mutex mutex;
  std::map<std::string, Secrets> secrets;
  std::vector<std::shared_ptr<const Security>> known;

  static Process& Get() {
    static Process* process = [] {
      // A child must not inherit a held lock.
      pthread_atfork([] { Get().mutex.lock(); }, [] { Get().mutex.unlock(); }, [] { Get().mutex.unlock(); });
      return new Process;
    }();
    return *process;
  }
};

void PutText(Writer& writer, const std::string& text) {
  writer.Put<std::int32_t>(static_cast<std::int32_t>(text.size())).PutBytes(text.data(), text.size());
}

std::string GetText(Reader& reader) {
  const std::size_t size = reader.Count(1);
  return std::string(reinterpret_cast<const char*>(reader.Bytes(size)), size);
}

// Changes when the file does: certificates are renewed while a long run goes on.
std::string Fingerprint(const TlsOptions& tls) {
  std::string print;
  for (const std::string* path : {&tls.cafile, &tls.certfile, &tls.keyfile}) {
    struct stat status{};
    if (path->empty() || stat(path->c_str(), &status) != 0) {
      print += "-;";
      continue;
    }
    print += std::to_string(status.st_ino) + "," + std::to_string(status.st_size) + "," +
             std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + ";";
  }
  return print;
}

[[noreturn]] void Invalid(const std::string& what) { throw Error(Code::kInvalidArgument, what); }

}  // namespace

void CheckSecurity(const TlsOptions& tls, const Secrets& secrets) {
  if (!tls.on && (!tls.cafile.empty() || !tls.certfile.empty())) {
    Invalid("TLS is switched off, but a CA or certificate file is given: leave out one of them");
  }
  if (!tls.keyfile.empty() && tls.certfile.empty()) Invalid("a keyfile needs a certfile");
  if (secrets.cert_password && tls.certfile.empty()) Invalid("a cert_password needs a certfile");
  if (secrets.username && !secrets.password) Invalid("a user name needs a password");
  if (secrets.password && !secrets.username) Invalid("a password needs a user name");
}

std::shared_ptr<const Security> Security::Of(const TlsOptions& tls, const Secrets& secrets) {
  CheckSecurity(tls, secrets);
  if (!tls.on && !secrets.username) return nullptr;
  Process& process = Process::Get();
  const std::lock_guard<std::mutex> lock(process.mutex);
  for (const auto& known : process.known) {
    if (known->tls().Tie() == tls.Tie() && known->secrets().Tie() == secrets.Tie()) return known;
  }
  process.known.push_back(std::make_shared<const Security>(tls, secrets));
  return process.known.back();
}

std::shared_ptr<ssl_ctx_st> Security::Context() const {
  const std::string now = Fingerprint(tls_);
  Process& process = Process::Get();
  {
    const std::lock_guard<std::mutex> lock(process.mutex);
    if (context_ && fingerprint_ == now) return context_;
  }
  std::shared_ptr<ssl_ctx_st> made = MakeTlsContext(tls_, secrets_.cert_password);
  const std::lock_guard<std::mutex> lock(process.mutex);
  context_ = made;
  fingerprint_ = now;
  return made;
}

std::string SecuritySettings::Serialize() const {
  if (plain()) return "";
  Writer writer;
  writer.Put(kFormat).PutBool(tls.on).PutBool(tls.verify).PutBool(tls.check_hostname);
  for (const std::string* text : {&tls.cafile, &tls.certfile, &tls.keyfile, &key}) PutText(writer, *text);
  writer.PutBool(has_credentials).PutBool(has_cert_password);
  return std::string(writer.bytes().begin(), writer.bytes().end());
}

SecuritySettings SecuritySettings::Parse(const std::string& bytes) {
  SecuritySettings settings;
  if (bytes.empty()) return settings;
  Reader reader(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  try {
    if (reader.Get<std::uint32_t>() != kFormat) Invalid("they were made by another version");
    settings.tls.on = reader.GetBool();
    settings.tls.verify = reader.GetBool();
    settings.tls.check_hostname = reader.GetBool();
    for (std::string* text :
         {&settings.tls.cafile, &settings.tls.certfile, &settings.tls.keyfile, &settings.key}) {
      *text = GetText(reader);
    }
    settings.has_credentials = reader.GetBool();
    settings.has_cert_password = reader.GetBool();
    if (reader.left() != 0) Invalid("there are bytes after their end");
  } catch (const Error& error) {
    throw Error(Code::kInvalidArgument, "these security settings cannot be read: " + error.message());
  }
  return settings;
}

std::shared_ptr<const Security> SecuritySettings::Resolve(const SecurityEnvironment& environment) const {
  TlsOptions options = tls;
  Secrets secrets;
  if (!key.empty()) {
    std::optional<Secrets> found = FindSecrets(key);
    const bool lacks_user =
        has_credentials && !(environment.secrets.username && environment.secrets.password);
    const bool lacks_key = has_cert_password && !environment.secrets.cert_password && !environment.certfile;
    if (!found && (lacks_user || lacks_key)) {
      throw Error(Code::kUnauthenticated,
                  std::string(lacks_user ? "a user name and password were" : "a cert_password was") +
                      " given where this dataset was made, and secrets do not travel in a graph: set " +
                      (lacks_user ? "IGNITE_DATASET_USERNAME and IGNITE_DATASET_PASSWORD"
                                  : "IGNITE_DATASET_CERT_PASSWORD") +
                      " in the environment of the process that reads (an agent gives its tasks its own "
                      "IGNITE_USERNAME, IGNITE_PASSWORD and IGNITE_CERT_PASSWORD)");
    }
    if (found) secrets = std::move(*found);
  }
  // A file named by a variable replaces the pair: the key of one certificate does not open another.
  if (environment.certfile) {
    options.certfile = *environment.certfile;
    options.keyfile.clear();
    secrets.cert_password.reset();
  }
  if (environment.keyfile) options.keyfile = *environment.keyfile;
  if (environment.cafile) options.cafile = *environment.cafile;
  if (environment.verify) options.verify = *environment.verify;
  if (environment.check_hostname) options.check_hostname = *environment.check_hostname;
  if (environment.cafile || environment.certfile) options.on = true;
  if (environment.tls) {
    if (!*environment.tls && (environment.cafile || environment.certfile)) {
      Invalid(
          "the environment switches TLS off (TLS=0) and names a CA or certificate file: unset one of them");
    }
    options.on = *environment.tls;
    if (!options.on) options = TlsOptions{};
  }
  if (environment.secrets.username) secrets.username = environment.secrets.username;
  if (environment.secrets.password) secrets.password = environment.secrets.password;
  if (environment.secrets.cert_password) secrets.cert_password = environment.secrets.cert_password;
  if (!options.on) secrets.cert_password.reset();
  return Security::Of(options, secrets);
}

void PutSecrets(const std::string& key, const Secrets& secrets) {
  Process& process = Process::Get();
  const std::lock_guard<std::mutex> lock(process.mutex);
  process.secrets[key] = secrets;
}

std::optional<Secrets> FindSecrets(const std::string& key) {
  Process& process = Process::Get();
  const std::lock_guard<std::mutex> lock(process.mutex);
  const auto found = process.secrets.find(key);
  if (found == process.secrets.end()) return std::nullopt;
  return found->second;
}

}  // namespace ignite_strategy
