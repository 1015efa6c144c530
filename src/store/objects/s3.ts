import { S3Client } from 'bun';
import { failureCode } from '../../core/failure-code.ts';
import { contentTypeOf } from '../../core/object-key.ts';
import type { Secret } from '../../core/secret.ts';
import type { Chunks, LinkWish, ObjectStorage, StoredObject } from '../../jobs/objects.ts';
import { unusable } from '../unusable.ts';

interface S3Place {
  readonly bucket: string;
  /** Ends with a slash unless it is empty. */
  readonly prefix: string;
  readonly endpoint: string | null;
  /** Where clients reach the same storage, if that is elsewhere: links lead there. */
  readonly publicEndpoint: string | null;
  readonly region: string | null;
}

/** Who we are to the storage. */
export interface S3Credentials {
  readonly accessKeyId: Secret | null;
  readonly secretAccessKey: Secret | null;
  readonly sessionToken: Secret | null;
}

/** S3 takes no smaller parts; with two on their way an upload holds about 15 MiB. */
const partBytes = 5 * 1024 * 1024;
const partsAtOnce = 2;

/** A storage that takes no part and gives no answer for so long is away. */
const answerMs = 30_000;

/** Makes browsers save a file instead of showing it. */
const contentDisposition = 'attachment';

const parameters = ['endpoint', 'public_endpoint', 'region'];

/** `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…` */
export function readS3Place(address: string): S3Place {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isKnown = [...(url?.searchParams.keys() ?? [])].every((name) => parameters.includes(name));
  const endpoint = url?.searchParams.get('endpoint') || null;
  const publicEndpoint = url?.searchParams.get('public_endpoint') || null;
  const areEndpoints = isEndpoint(endpoint) && isEndpoint(publicEndpoint);
  if (!url?.hostname || url.username || !isKnown || !areEndpoints) {
    throw unusable(
      'The objects address must be s3://bucket/prefix?endpoint=…&public_endpoint=…&region=….',
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

export class S3Objects implements ObjectStorage {
  readonly #client: S3Client;
  /** Signs the links for clients; sends no request itself. */
  readonly #seenByClients: S3Client;
  readonly #prefix: string;
  readonly #answerMs: number;

  constructor(place: S3Place, credentials: S3Credentials, patienceMs = answerMs) {
    this.#answerMs = patienceMs;
    const { accessKeyId, secretAccessKey, sessionToken } = credentials;
    if (accessKeyId === null || secretAccessKey === null) {
      throw unusable(
        'Objects on S3 need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
      );
    }
    this.#prefix = place.prefix;
    const by = (endpoint: string | null) =>
      new S3Client({
        bucket: place.bucket,
        accessKeyId: accessKeyId.reveal(),
        secretAccessKey: secretAccessKey.reveal(),
        ...(sessionToken === null ? {} : { sessionToken: sessionToken.reveal() }),
        ...(endpoint === null ? {} : { endpoint }),
        ...(place.region === null ? {} : { region: place.region }),
      });
    this.#client = by(place.endpoint);
    this.#seenByClients = by(place.publicEndpoint ?? place.endpoint);
  }

  async put(key: string, chunks: Chunks): Promise<number> {
    const upload = this.#client.file(this.#prefix + key).writer({
      type: contentTypeOf(key),
      contentDisposition,
      partSize: partBytes,
      queueSize: partsAtOnce,
      retry: 2,
    });
    let bytes = 0;
    try {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        await upload.write(chunk);
        await this.#answer(upload.flush());
      }
      await this.#answer(upload.end());
      return bytes;
    } catch (thrown) {
      const abandoned = this.#abandon(upload, key);
      if (!(thrown instanceof Silence)) await abandoned;
      throw thrown;
    }
  }

  async open(key: string): Promise<StoredObject | undefined> {
    const file = this.#client.file(this.#prefix + key);
    try {
      const { size } = await this.#answer(file.stat());
      return { bytes: size, body: file };
    } catch (thrown) {
      const code = failureCode(thrown);
      if (code === 'NoSuchKey' || code === 'NotFound') return undefined;
      throw thrown;
    }
  }

  async delete(key: string): Promise<void> {
    await this.#answer(this.#client.delete(this.#prefix + key));
  }

  link(key: string, { now, expiresAt }: LinkWish): string {
    const expiresIn = Math.max(1, Math.floor((expiresAt - now) / 1000));
    return this.#seenByClients.presign(this.#prefix + key, { expiresIn, contentDisposition });
  }

  /** The client cannot break an upload off, only end it; so what came of it is removed. */
  async #abandon(upload: Bun.NetworkSink, key: string): Promise<void> {
    await this.#answer(upload.end()).catch(() => undefined);
    await this.delete(key).catch(() => undefined);
  }

  /** Bounds the wait for an answer: the client itself would wait for ever. */
  async #answer<T>(asked: T | Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Silence(this.#answerMs)), this.#answerMs);
    try {
      return await Promise.race([asked, late.promise]);
    } catch (thrown) {
      throw isUnspoken(thrown) ? unreached(thrown) : thrown;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A question for the size of an object is refused without a body that could name the reason. */
const wordless =
  'The object storage answered with an error and gave no reason: it may be busy, or its policy ' +
  'does not let this key do that.';

/** The client has one sentence for a port that is closed, an unknown name and a cut connection. */
function isUnspoken(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message === 'an unexpected error has occurred';
}

function unreached(cause: unknown): Error {
  const code = failureCode(cause) ?? 'for no known reason';
  if (code === 'UnknownError') return new Error(wordless, { cause });
  return new Error(`The object storage cannot be reached (${code}).`, { cause });
}

class Silence extends Error {
  override readonly name = 'Silence';

  constructor(ms: number) {
    super(`The object storage did not answer within ${ms} ms.`);
  }
}
