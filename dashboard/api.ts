/** Calls the gateway's API. Every failure becomes an error with a sentence to show. */

export class ApiError extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

export interface Call {
  readonly key: string;
  readonly method?: string;
  readonly body?: object | FormData;
  readonly signal?: AbortSignal;
}

/** Called when the gateway refuses the key with which the user is signed in. */
let onRejected: (key: string, message: string) => void = () => undefined;

export function whenRejected(handle: typeof onRejected): void {
  onRejected = handle;
}

export async function send(path: string, call: Call): Promise<Response> {
  const { key, method = 'GET', body, signal } = call;
  const isForm = body instanceof FormData;
  const headers = {
    authorization: `Bearer ${key}`,
    ...(body && !isForm ? { 'content-type': 'application/json' } : {}),
  };
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      cache: 'no-store',
      ...(body ? { body: isForm ? body : JSON.stringify(body) } : {}),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError('The gateway cannot be reached. Check that it is running.', 0);
  }
  if (response.ok) return response;
  const message = await sentenceOf(response);
  if (response.status === 401) onRejected(key, message);
  throw new ApiError(message, response.status);
}

/** Our own API answers with the shapes of shapes.ts; they are not checked a second time here. */
export async function requestJson<T>(path: string, call: Call): Promise<T> {
  const response = await send(path, call);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (call.signal?.aborted) throw error;
    // The answer was cut off, or a proxy in front of the gateway made it up.
    throw new ApiError('The gateway’s answer broke off or cannot be read.', response.status);
  }
}

/** For answers whose whole content is in `data`. */
export async function requestData<T>(path: string, call: Call): Promise<T> {
  return (await requestJson<{ readonly data: T }>(path, call)).data;
}

async function sentenceOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { error?: { message?: unknown } };
    if (typeof body.error?.message === 'string') return body.error.message;
  } catch {
    // A proxy in front of the gateway answered with a page of its own.
  }
  return `The gateway answered with status ${response.status} and gave no reason.`;
}

/** Saves an answer as a file and reports its progress. A plain link could not carry the key. */
export async function download(
  path: string,
  key: string,
  name: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const response = await send(path, { key });
  const type = response.headers.get('content-type') ?? '';
  let bytes = 0;
  const counted = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        bytes += piece.length;
        onBytes(bytes);
        controller.enqueue(piece);
      },
    }),
  );
  // The browser keeps a large blob on disk, so exports of any length work.
  const blob = await new Response(counted ?? null, { headers: { 'content-type': type } }).blob();
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), linkMs);
}

/** After this time the browser has saved the file, and its address can be given up. */
const linkMs = 60_000;
