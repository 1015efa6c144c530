import { S3Client } from 'bun';
import type { AwsSource } from '../../config/workload.ts';
import { failureCode } from '../../core/errors.ts';
import type { Secret } from '../../core/secret.ts';
import { contentTypeOf } from '../../core/stored-object.ts';
import type {
  Chunks,
  LinkOptions,
  ObjectLinks,
  ObjectStorage,
  StoredObject,
} from '../../jobs/object-storage.ts';
import { awsCredentialOf, type TemporaryAwsKey } from '../../workload/aws.ts';
import type { RefreshedCredential } from '../../workload/refreshed-credential.ts';
import { storeError } from '../errors.ts';

interface S3Location {
  readonly bucket: string;
  /** Ends with a slash unless it is empty. */
  readonly prefix: string;
  readonly endpoint: string | null;
  /** The endpoint for links, if clients reach the same storage at a different one. */
  readonly publicEndpoint: string | null;
  readonly region: string | null;
}

export interface S3Credentials {
  readonly accessKeyId: Secret | null;
  readonly secretAccessKey: Secret | null;
  readonly sessionToken: Secret | null;
  /** Set if temporary credentials are used instead. */
  readonly workload: AwsSource | null;
}

/** The minimum part size of S3. With two parts in flight, an upload holds about 15 MiB. */
const partBytes = 5 * 1024 * 1024;
const concurrentParts = 2;

/** After this long without a response, the storage counts as unreachable. */
const defaultTimeoutMs = 30_000;

/** Makes browsers save a file instead of showing it. */
const contentDisposition = 'attachment';

const parameters = ['endpoint', 'public_endpoint', 'region', 'credentials'];

/** `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…&credentials=…` */
export function parseS3Address(address: string): S3Location {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isKnown = [...(url?.searchParams.keys() ?? [])].every((name) => parameters.includes(name));
  const endpoint = url?.searchParams.get('endpoint') || null;
  const publicEndpoint = url?.searchParams.get('public_endpoint') || null;
  const areEndpoints = isEndpoint(endpoint) && isEndpoint(publicEndpoint);
  if (!url?.hostname || url.username || !isKnown || !areEndpoints) {
    throw storeError(
      'The objects URL must be s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…&credentials=….',
    );
  }
  const path = decodeURIComponent(url.pathname).replace(/^\/+|\/+$/g, '');
  return {
    bucket: url.hostname,
    prefix: path === '' ? '' : `${path}/`,
    endpoint,
    publicEndpoint,
    region: url.searchParams.get('region') || null,
  };
}

function isEndpoint(text: string | null): boolean {
  return text === null || (/^https?:\/\//.test(text) && URL.canParse(text));
}

/** Returns the client for a request. A client can't change its credentials. */
type ClientSource = () => Promise<S3Client>;

export class S3Objects implements ObjectStorage {
  readonly #client: ClientSource;
  readonly #link: ObjectStorage['link'];
  readonly #prefix: string;
  readonly #timeoutMs: number;

  /** `links` signs links when S3's would expire with temporary credentials. */
  constructor(
    location: S3Location,
    credentials: S3Credentials,
    links: Pick<ObjectLinks, 'make'>,
    timeoutMs = defaultTimeoutMs,
  ) {
    this.#timeoutMs = timeoutMs;
    this.#prefix = location.prefix;
    const { workload } = credentials;
    if (workload) {
      this.#client = clientsFor(location, awsCredentialOf(workload));
      this.#link = (key, options) => links.make(key, options);
      return;
    }
    const keys = staticKeys(credentials);
    const client = clientFor(location, location.endpoint, keys);
    this.#client = () => Promise.resolve(client);
    // Signs links for clients. Sends no requests.
    const signer = clientFor(location, location.publicEndpoint ?? location.endpoint, keys);
    this.#link = (key, { now, expiresAt }) => {
      const expiresIn = Math.max(1, Math.floor((expiresAt - now) / 1000));
      return signer.presign(this.#prefix + key, { expiresIn, contentDisposition });
    };
  }

  async put(key: string, chunks: Chunks): Promise<number> {
    const client = await this.#client();
    const upload = client.file(this.#prefix + key).writer({
      type: contentTypeOf(key),
      contentDisposition,
      partSize: partBytes,
      queueSize: concurrentParts,
      retry: 2,
    });
    let bytes = 0;
    try {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        await upload.write(chunk);
        await this.#withTimeout(upload.flush());
      }
      await this.#withTimeout(upload.end());
      return bytes;
    } catch (error) {
      const aborting = this.#abort(upload, key);
      if (!(error instanceof StorageTimeout)) await aborting;
      throw error;
    }
  }

  async open(key: string): Promise<StoredObject | undefined> {
    const file = (await this.#client()).file(this.#prefix + key);
    try {
      const { size } = await this.#withTimeout(file.stat());
      return { bytes: size, body: file };
    } catch (error) {
      const code = failureCode(error);
      if (code === 'NoSuchKey' || code === 'NotFound') return undefined;
      throw error;
    }
  }

  async delete(key: string): Promise<void> {
    const client = await this.#client();
    await this.#withTimeout(client.delete(this.#prefix + key));
  }

  link(key: string, options: LinkOptions): string {
    return this.#link(key, options);
  }

  /** The client can't abort an upload, only end it, so this deletes the result. */
  async #abort(upload: Bun.NetworkSink, key: string): Promise<void> {
    await this.#withTimeout(upload.end()).catch(() => undefined);
    await this.delete(key).catch(() => undefined);
  }

  /** Limits the wait for a response, because the client has no timeout of its own. */
  async #withTimeout<T>(response: T | Promise<T>): Promise<T> {
    const timeout = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => timeout.reject(new StorageTimeout(this.#timeoutMs)),
      this.#timeoutMs,
    );
    try {
      return await Promise.race([response, timeout.promise]);
    } catch (error) {
      throw isUnexplained(error) ? unreachableError(error) : error;
    } finally {
      clearTimeout(timer);
    }
  }
}

interface S3Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | null;
}

function clientFor(
  { bucket, region }: S3Location,
  endpoint: string | null,
  { accessKeyId, secretAccessKey, sessionToken }: S3Keys,
): S3Client {
  return new S3Client({
    bucket,
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === null ? {} : { sessionToken }),
    ...(endpoint === null ? {} : { endpoint }),
    ...(region === null ? {} : { region }),
  });
}

function clientsFor(
  location: S3Location,
  credential: RefreshedCredential<TemporaryAwsKey>,
): ClientSource {
  const clients = new WeakMap<TemporaryAwsKey, S3Client>();
  return async () => {
    const current = await credential.get();
    const client = clients.get(current) ?? clientFor(location, location.endpoint, current.key);
    clients.set(current, client);
    return client;
  };
}

function staticKeys({ accessKeyId, secretAccessKey, sessionToken }: S3Credentials): S3Keys {
  if (accessKeyId === null || secretAccessKey === null) {
    throw storeError(
      'Objects on S3 need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add ' +
        'credentials=aws or credentials=aws_instance to the URL.',
    );
  }
  return {
    accessKeyId: accessKeyId.reveal(),
    secretAccessKey: secretAccessKey.reveal(),
    sessionToken: sessionToken?.reveal() ?? null,
  };
}

/** A rejected HEAD request has no body that could name the reason. */
const noReasonMessage =
  'The object storage returned an error without a reason. It may be overloaded, or its policy ' +
  'may not allow this operation.';

/** The client has the same message for a closed port, an unknown host, and a lost connection. */
function isUnexplained(error: unknown): boolean {
  return error instanceof Error && error.message === 'an unexpected error has occurred';
}

function unreachableError(cause: unknown): Error {
  const code = failureCode(cause) ?? 'unknown error';
  if (code === 'UnknownError') return new Error(noReasonMessage, { cause });
  return new Error(`The object storage is unreachable (${code}).`, { cause });
}

class StorageTimeout extends Error {
  override readonly name = 'StorageTimeout';

  constructor(ms: number) {
    super(`The object storage didn't respond within ${ms} ms.`);
  }
}
