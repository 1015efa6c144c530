/** A gateway with the built-in audio models and two fake upstreams instead of the vendors. */
import { expect } from 'bun:test';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type FakeUpstream, startFakeUpstream } from './fake-upstream.ts';
import { InProcessGateway, type Reply, readReply } from './in-process.ts';

export interface SpeechReply extends Reply {
  readonly bytes: Uint8Array;
}

export class AudioGateway {
  readonly openai: FakeUpstream;
  readonly siliconflow: FakeUpstream;
  readonly gateway: InProcessGateway;

  static async start(models: readonly object[] = [], provider: object = {}): Promise<AudioGateway> {
    const [openai, siliconflow] = [startFakeUpstream(), startFakeUpstream()];
    const at = ({ url }: FakeUpstream) => ({
      base_url: `${url}/v1`,
      api_key: 'sk-theirs-0123456789',
      idle_timeout_ms: 5_000,
      ...provider,
    });
    const settings = {
      catalogue: 'builtin',
      demo: true,
      limits: { requests_per_minute: 100_000 },
      providers: { openai: at(openai), siliconflow: at(siliconflow) },
      models,
    };
    return new AudioGateway(openai, siliconflow, await InProcessGateway.start(settings));
  }

  private constructor(openai: FakeUpstream, siliconflow: FakeUpstream, gateway: InProcessGateway) {
    this.openai = openai;
    this.siliconflow = siliconflow;
    this.gateway = gateway;
  }

  async stop(): Promise<void> {
    await this.gateway.stop();
    this.openai.stop();
    this.siliconflow.stop();
  }

  reset(): void {
    this.openai.reset();
    this.siliconflow.reset();
  }

  async speak(body: object, key?: string): Promise<SpeechReply> {
    const path = '/v1/audio/speech';
    const response = await this.gateway.fetch(body, { path, ...(key ? { key } : {}) });
    const { headers, status } = response;
    const bytes = new Uint8Array(await response.arrayBuffer());
    return { ...(await readReply(new Response(bytes, { headers, status }))), bytes };
  }

  async transcribe(form: FormData, key = this.gateway.keys.routing): Promise<Reply> {
    const headers = { authorization: `Bearer ${key}` };
    const init = { method: 'POST', headers, body: form };
    return readReply(await fetch(`${this.gateway.url}/v1/audio/transcriptions`, init));
  }

  /** Returns a request's charge with its billing note. */
  async bill({ requestId }: Pick<Reply, 'requestId'>) {
    const record = await this.gateway.record(requestId);
    const { charges, provider, note, usageEstimated, status } = record;
    return { credits: charges.modelCharge, provider, note, estimated: usageEstimated, status };
  }

  /** Expects an error with this status and parameter, no charge, and no upload left on disk. */
  async expectRejection(reply: Reply, status: number, param: string | null): Promise<void> {
    expect([reply.status, reply.error.param, reply.error.type]).toEqual([
      status,
      param,
      'invalid_request_error',
    ]);
    expect(String(reply.error.message)).toMatch(/^[^\n]{5,300}[.?]$/);
    expect((await this.bill(reply)).credits).toBe(0);
    expect([this.openai.requests, this.siliconflow.requests].map(({ length }) => length)).toEqual([
      0, 0,
    ]);
    expect(this.uploadsOnDisk()).toEqual([]);
  }

  uploadsOnDisk(): string[] {
    const folder = join(this.gateway.folder, 'uploads');
    return existsSync(folder) ? readdirSync(folder) : [];
  }
}
