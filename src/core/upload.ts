/** Bytes that are too many to be held: a file of a client, or a request that carries one. */
export interface LongBytes {
  readonly bytes: number;
  /** From the beginning, as often as wanted. */
  chunks(): AsyncIterable<Uint8Array>;
}

/** A file that a client sent, put aside until its request has ended. */
export interface Upload extends LongBytes {
  readonly sha256: string;
  /** At most this many of its first bytes. */
  start(bytesMax: number): Promise<Uint8Array>;
}

/** Where the files of one request lie. */
export interface UploadTray {
  /** Takes the bytes as they come; when their source fails, nothing stays. */
  keep(chunks: AsyncIterable<Uint8Array>): Promise<Upload>;
  /** Throws everything away. Safe to call again. */
  clear(): Promise<void>;
}
