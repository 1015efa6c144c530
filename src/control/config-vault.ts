import { sealingKeysOf } from '../auth/vault.ts';
import type { StoredDocument } from '../config/config.ts';
import { configKinds, isKindName } from '../config/kinds.ts';
import { maskSecrets, secretsIn, valueAt, withValueAt } from '../config/secret-fields.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { isObject, type JsonObject, objectsIn, parseJson, textOf } from '../core/json.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import { labelOfKey } from '../core/provider-key.ts';
import { configObjectPurpose, type SecretKeys } from '../core/secret.ts';
import type { NewObject, ObjectId, StoredObject } from './config-store.ts';

/** The secrets of one object. */
interface Secrets {
  /** The URL that they are for. If a row in the store is tampered with, they aren't sent there. */
  readonly destination: string;
  readonly fields: readonly { readonly path: readonly string[]; readonly text: string }[];
}

const undecryptable =
  'has secrets that the secret key of this process cannot decrypt; set them again, or start the ' +
  'process with the key that encrypted them';

/** Encrypts the secrets of configuration objects with the key that also encrypts tenants' keys. */
export class ConfigVault {
  readonly #keys: ReturnType<typeof sealingKeysOf>;

  constructor(secrets: SecretKeys) {
    this.#keys = sealingKeysOf(secrets);
  }

  get fingerprint(): string {
    return this.#keys[0].fingerprint;
  }

  /** Returns an object with its secrets, or with a problem if they can't be decrypted. */
  open(object: StoredObject): StoredDocument {
    const { kind, name, document } = object;
    if (!object.sealed || !isKindName(kind)) return { kind, name, document };
    const secrets = this.#secretsOf(object);
    if (secrets?.destination !== configKinds[kind].destinationOf(document)) {
      return { kind, name, document, problem: undecryptable };
    }
    for (const { text } of secrets.fields) knownCredentials.add(text);
    const opened = secrets.fields.reduce<unknown>(
      (filled, { path, text }) => withValueAt(filled, path, text),
      document,
    );
    return { kind, name, document: isObject(opened) ? opened : document };
  }

  /**
   * Encrypts the secrets of a document. A secret of the stored object is reused where the document
   * has its label, and maybe where it is omitted. Throws 400 if it would be sent to another server.
   */
  seal({ kind, name, document: requested }: Requested, options: SealOptions): NewObject {
    if (!isKindName(kind)) return { kind, name, document: requested, sealed: null };
    const { stored, omitted, sealingKey } = options;
    const { secrets: patterns, destinationOf } = configKinds[kind];
    const document = withPreviousSecrets(requested, patterns, this.#previousOf(stored), omitted);
    if (stored && document.reused.length > 0) {
      requireSameServer(destinationOf(stored.document), destinationOf(requested), document.reused);
    }
    const fields = secretsIn(document.filled, patterns).map(({ path, text }) => ({ path, text }));
    const masked = maskSecrets(document.filled, patterns);
    if (fields.length === 0) return { kind, name, document: masked, sealed: null };
    const key = this.#keys.find(({ fingerprint }) => fingerprint === sealingKey);
    if (!key) throw otherKey();
    for (const { text } of fields) knownCredentials.add(text);
    const secrets: Secrets = { destination: destinationOf(requested), fields };
    const sealed = key.seal(JSON.stringify(secrets), configObjectPurpose(kind, name));
    return { kind, name, document: masked, sealed };
  }

  #previousOf(previous: StoredObject | undefined): PreviousSecrets | undefined {
    if (!previous?.sealed) return undefined;
    const { document } = previous;
    return { document, fields: this.#secretsOf(previous)?.fields ?? [] };
  }

  #secretsOf({ kind, name, sealed }: StoredObject): Secrets | undefined {
    if (!sealed) return undefined;
    const purpose = configObjectPurpose(kind, name);
    const text = this.#keys
      .map((key) => key.open(sealed, purpose))
      .find((one) => one !== undefined);
    const secrets = text === undefined ? undefined : parseJson(text);
    if (!isObject(secrets)) return undefined;
    const fields = objectsIn(secrets.fields).map(({ path, text: secret }) => ({
      path: Array.isArray(path) ? path.map(textOf) : [],
      text: textOf(secret),
    }));
    return { destination: textOf(secrets.destination), fields };
  }
}

type Requested = ObjectId & { readonly document: JsonObject };

/** Whether secrets that a document omits are those of the stored object, or are removed. */
export type OmittedSecrets = 'reuse' | 'remove';

interface SealOptions {
  readonly stored: StoredObject | undefined;
  readonly omitted: OmittedSecrets;
  /** The fingerprint of the key that has to encrypt the secrets. */
  readonly sealingKey: string;
}

interface PreviousSecrets {
  readonly document: JsonObject;
  readonly fields: Secrets['fields'];
}

/** Fills in the secrets that a request left as they are. `reused` are their top-level fields. */
function withPreviousSecrets(
  requested: JsonObject,
  patterns: readonly string[],
  previous: PreviousSecrets | undefined,
  omitted: OmittedSecrets,
): { readonly filled: JsonObject; readonly reused: readonly string[] } {
  let filled = requested;
  const reused = new Set<string>();
  for (const { path, text } of previous?.fields ?? []) {
    const [top = ''] = path;
    // A section such as `previous_key` is removed together with its secret.
    const isSection = path.length > 1 && patterns.includes(path.join('.'));
    const isOmitted =
      filled[top] === undefined
        ? !isSection
        : isLiteral(path, patterns) && isMissingIn(filled, path);
    if (isOmitted && omitted === 'remove') continue;
    if (!isOmitted && valueAt(filled, path) !== labelOfKey(text)) continue;
    if (filled[top] === undefined) filled = { ...filled, [top]: previous?.document[top] };
    filled = withValueAt(filled, path, text) as JsonObject;
    reused.add(top);
  }
  for (const { path, text } of secretsIn(filled, patterns)) {
    if (!text.startsWith('•')) continue;
    const field = path.join('.');
    throw invalidRequest(`${field} is the label of a secret. Send the secret itself.`, field);
  }
  return { filled, reused: [...reused] };
}

/** Returns whether the last segment of a secret's pattern is a name, not `*`. */
function isLiteral(path: readonly string[], patterns: readonly string[]): boolean {
  return patterns.some((pattern) => {
    const segments = pattern.split('.');
    return segments.length === path.length && segments.at(-1) === path.at(-1);
  });
}

/** Returns whether the object that a field belongs to exists and lacks it. */
function isMissingIn(document: JsonObject, path: readonly string[]): boolean {
  const parent = valueAt(document, path.slice(0, -1));
  return isObject(parent) && parent[path.at(-1) ?? ''] === undefined;
}

/** An admin token alone must not be enough to have a secret sent to another server. */
function requireSameServer(before: string, after: string, reused: readonly string[]): void {
  if (originOf(before) === originOf(after)) return;
  const [field = ''] = reused;
  const message =
    `${field} must be sent again, because the request changes the server that it is for. ` +
    'Secrets are only reused for the same server.';
  throw invalidRequest(message, field);
}

function originOf(url: string): string {
  return URL.parse(url)?.origin ?? url;
}

function otherKey(): GatewayError {
  return new GatewayError(
    'service_unavailable',
    "Secrets can't be saved by this process, because the secret key in use is a different one. " +
      'Start every process with the same TOLLGATE_SECRET_KEY or secret.key.',
  );
}
