/** A gateway in front of the scripted upstream, as suites with the official SDKs need it. */
import { isObject } from '../../src/core/json.ts';
import { ActiveClock } from '../support/active-clock.ts';
import {
  type FakeUpstream,
  type LoggedRequest,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

/** What the fake upstream calls the model `acme/large`. */
export const upstreamModel = 'large-fp8';
export const upstreamSecret = 'upstream-account-secret';

/** One credit per prompt token and two per completion token: sums that a reader can check. */
export const pricing = { prompt: '1', completion: '2' };

/** A gateway, the upstream behind it, and what came of requests there. */
export class SdkRig {
  readonly upstream: FakeUpstream;
  readonly gateway: InProcessGateway;
  readonly awake = new ActiveClock();

  protected constructor(upstream: FakeUpstream, gateway: InProcessGateway) {
    this.upstream = upstream;
    this.gateway = gateway;
  }

  async stop(): Promise<void> {
    this.awake[Symbol.dispose]();
    await this.gateway.stop();
    this.upstream.stop();
  }

  get apiKey(): string {
    return this.gateway.keys.routing;
  }

  /** The last request that reached the upstream. */
  get lastAsked(): LoggedRequest {
    const entry = this.upstream.requests.at(-1);
    if (!entry) throw new Error('nothing has reached the upstream');
    return entry;
  }

  /** The last request's body as the upstream read it. */
  get lastBody(): Record<string, unknown> {
    const { json } = this.lastAsked;
    if (!isObject(json)) throw new Error('the upstream was sent no JSON object');
    return json;
  }

  /** How long after `leftAt`, on `awake`, the upstream saw its client go. */
  async hangUpMs(leftAt: number): Promise<number> {
    await this.upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    return this.awake.ms - leftAt;
  }
}

export class Rig extends SdkRig {
  readonly model = 'acme/large';

  static async start(): Promise<Rig> {
    const upstream = startFakeUpstream();
    const base_url = `${upstream.url}/v1`;
    const onlyText = { input_modalities: ['text'], features: [] };
    const settings = {
      demo: true,
      providers: { fake: { dialect: 'openai', base_url, api_key: upstreamSecret } },
      models: [
        chatModel('acme/large', [{ provider: 'fake', model: upstreamModel, pricing }]),
        chatModel('acme/plain', [{ provider: 'fake', model: 'plain', pricing }], onlyText),
      ],
    };
    return new Rig(upstream, await InProcessGateway.start(settings));
  }

  /** What `/v1/generation` says about a request, by either of its ids. */
  async generation(id: string | null | undefined): Promise<Record<string, unknown>> {
    const { json } = await this.gateway.get(`/v1/generation?id=${id}`);
    return isObject(json.data) ? json.data : {};
  }
}

/** The clock of the upstream's book. */
export function clock(): number {
  return performance.timeOrigin + performance.now();
}

/** Waits for what must fail and gives back its error. */
export async function failure(of: PromiseLike<unknown>): Promise<unknown> {
  try {
    await of;
  } catch (error) {
    return error;
  }
  throw new Error('this should have failed');
}

/** A field that an SDK hands on without knowing it. */
export function fieldOf(value: object | null | undefined, name: string): unknown {
  return Object.entries(value ?? {}).find(([key]) => key === name)?.[1];
}

/** A PNG of one pixel, as clients send images. */
export const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk' +
  'YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
