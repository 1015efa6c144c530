/** Calls the gateway's API. Every failure becomes an error whose message can be shown. */

export class ApiError extends Error {
  readonly status: number;
  /** The invalid field, if the gateway names one. */
  readonly param: string | undefined;

  constructor(message: string, status: number, param?: string) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

export interface Call {
  readonly key: string;
  readonly method?: string;
  readonly body?: object | FormData;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

let handleRejectedKey: (key: string, message: string) => void = () => undefined;

/** Sets the function to call when the gateway rejects a key with 401. */
export function onKeyRejected(handle: typeof handleRejectedKey): void {
  handleRejectedKey = handle;
}

export async function send(path: string, call: Call): Promise<Response> {
  const { key, method = 'GET', body, signal } = call;
  const isForm = body instanceof FormData;
  const headers = {
    ...call.headers,
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
    throw new ApiError("Can't reach the gateway. Check that it's running.", 0);
  }
  if (response.ok) return response;
  const { message, param } = await errorIn(response);
  if (response.status === 401) handleRejectedKey(key, message);
  throw new ApiError(message, response.status, param);
}

/** Returns the parsed response. Its type comes from the contract and isn't checked at runtime. */
export async function requestJson<T>(path: string, call: Call): Promise<T> {
  const response = await send(path, call);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (call.signal?.aborted) throw error;
    // The response was cut off, or a proxy in front of the gateway replaced it.
    throw new ApiError(
      "The gateway's response was incomplete or not valid JSON. Try again.",
      response.status,
    );
  }
}

/** Returns the `data` field of the parsed response. */
export async function requestData<T>(path: string, call: Call): Promise<T> {
  return (await requestJson<{ readonly data: T }>(path, call)).data;
}

async function errorIn(response: Response): Promise<{ message: string; param?: string }> {
  const text = await response.text();
  try {
    const { error = {} } = JSON.parse(text) as { error?: { message?: unknown; param?: unknown } };
    const { message, param } = error;
    if (typeof message === 'string')
      return { message, ...(typeof param === 'string' && { param }) };
  } catch {
    // The body isn't JSON: a proxy in front of the gateway returned its own page.
  }
  return { message: `The gateway returned status ${response.status} without an error message.` };
}

/** Saves a response as a file and reports progress. A plain link couldn't send the key. */
export async function download(
  path: string,
  key: string,
  name: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const response = await send(path, { key });
  const type = response.headers.get('content-type') ?? '';
  let bytes = 0;
  const withProgress = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        onBytes(bytes);
        controller.enqueue(chunk);
      },
    }),
  );
  // The browser keeps a large blob on disk, so exports of any length work.
  const blob = await new Response(withProgress ?? null, {
    headers: { 'content-type': type },
  }).blob();
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), revokeAfterMs);
}

/** After this time, the browser has saved the file, and the URL can be revoked. */
const revokeAfterMs = 60_000;
