/**
 * Cohere's and Gemini's embeddings on loopback. A text gets the vector [number at its end, or -1;
 * its length], so that a test sees which vector belongs to which text.
 */

interface EmbeddingCall {
  readonly path: string;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
  readonly texts: readonly string[];
}

export class EmbeddingServer {
  readonly calls: EmbeddingCall[] = [];
  /** Cohere's `meta.billed_units.input_tokens` for each text; null leaves `meta` out. */
  tokensPerText: number | null = null;
  /** Calls with more texts than this are refused with 413, as TEI does. */
  textsMax = Number.POSITIVE_INFINITY;
  /** If set, the next call gets this answer. */
  refusal: Response | null = null;
  /** No call is answered before this many are open at once. */
  callsAwaited = 1;
  callsAtOnceMost = 0;
  #callsAtOnce = 0;
  #met = Promise.withResolvers<void>();
  readonly #server = Bun.serve({ port: 0, fetch: (request) => this.#answer(request) });

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  async stop(): Promise<void> {
    await this.#server.stop(true);
  }

  reset(): void {
    this.calls.length = 0;
    this.tokensPerText = null;
    this.textsMax = Number.POSITIVE_INFINITY;
    this.refusal = null;
    this.callsAwaited = 1;
    this.callsAtOnceMost = 0;
    this.#met = Promise.withResolvers();
  }

  async #answer(request: Request): Promise<Response> {
    this.#callsAtOnce += 1;
    this.callsAtOnceMost = Math.max(this.callsAtOnceMost, this.#callsAtOnce);
    try {
      const { pathname: path } = new URL(request.url);
      const body = (await request.json()) as Record<string, unknown>;
      const isCohere = path.endsWith('/embed');
      const texts = isCohere ? (body.texts as string[]) : geminiTexts(body);
      this.calls.push({ path, headers: request.headers, body, texts });
      if (this.callsAtOnceMost >= this.callsAwaited) this.#met.resolve();
      await this.#met.promise;
      // If the gateway made one call too many, it would arrive within this time.
      await Bun.sleep(20);
      const { refusal } = this;
      this.refusal = null;
      if (refusal) return refusal;
      if (texts.length > this.textsMax) return tooMany(texts.length, this.textsMax);
      const vectors = texts.map((text) => [Number(/\d+$/.exec(text)?.[0] ?? -1), text.length]);
      if (!isCohere) return Response.json({ embeddings: vectors.map((values) => ({ values })) });
      const meta = { billed_units: { input_tokens: texts.length * (this.tokensPerText ?? 0) } };
      return Response.json({
        id: 'e1',
        embeddings: { float: vectors },
        response_type: 'embeddings_by_type',
        ...(this.tokensPerText === null ? {} : { meta }),
      });
    } finally {
      this.#callsAtOnce -= 1;
    }
  }
}

function geminiTexts({ requests }: Record<string, unknown>): string[] {
  const all = requests as { content: { parts: { text: string }[] } }[];
  return all.map(({ content }) => content.parts.map(({ text }) => text).join(''));
}

function tooMany(count: number, most: number): Response {
  const message = `batch size ${count} > maximum allowed batch size ${most}`;
  return Response.json({ message, code: 413, type: 'Validation' }, { status: 413 });
}
