/**
 * A gateway with a model for every route, all served by one fake upstream. Compares its answers
 * with `/openapi.json`.
 */

import { type FakeUpstream, startFakeUpstream } from './fake-upstream.ts';
import { chatModel, InProcessGateway } from './in-process.ts';
import { type CheckedAnswer, OpenApiChecker } from './openapi-checker.ts';

export interface RequestOptions {
  /** By default, a routing key. Null sends no key. */
  readonly key?: string | null;
  /** An object is sent as JSON. A string is sent unchanged. */
  readonly body?: object | string | FormData;
  readonly headers?: Readonly<Record<string, string>>;
}

export class CheckedGateway {
  readonly gateway: InProcessGateway;
  readonly upstream: FakeUpstream;
  readonly api: OpenApiChecker;

  static async start(limits: object = {}): Promise<CheckedGateway> {
    const upstream = startFakeUpstream();
    const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
    const gateway = await InProcessGateway.start({
      logs: { requests: false },
      limits: { requests_per_minute: 100_000, ...limits },
      providers: { fake },
      models,
    });
    const { json } = await gateway.get('/openapi.json');
    return new CheckedGateway(gateway, upstream, new OpenApiChecker(json));
  }

  private constructor(gateway: InProcessGateway, upstream: FakeUpstream, api: OpenApiChecker) {
    this.gateway = gateway;
    this.upstream = upstream;
    this.api = api;
  }

  async stop(): Promise<void> {
    await this.gateway.stop();
    this.upstream.stop();
  }

  /** Sends a request and checks the answer against the route's description. */
  async send(name: string, path: string, options: RequestOptions = {}): Promise<CheckedAnswer> {
    const [method = ''] = name.split(' ');
    const { key = this.gateway.keys.routing, body, headers = {} } = options;
    const isJson = body !== undefined && !(body instanceof FormData);
    const response = await fetch(this.gateway.url + path, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(isJson ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isJson ? textOf(body) : body }),
    });
    return this.api.check(name, response);
  }

  /** Sends a request and throws unless it succeeds. */
  async sendOk(name: string, path: string, options: RequestOptions = {}): Promise<CheckedAnswer> {
    const answer = await this.send(name, path, options);
    if (answer.status >= 300) throw new Error(`${name} was refused: ${answer.text}`);
    return answer;
  }
}

const textOf = (body: object | string) => (typeof body === 'string' ? body : JSON.stringify(body));

const media = (name: string, feature: string | string[], pricing: object, more: object = {}) => ({
  id: `test/${name}`,
  name,
  input_modalities: ['text'],
  output_modalities: ['text'],
  features: [feature].flat(),
  endpoints: [{ provider: 'fake', model: name, pricing }],
  ...more,
});

const imageModalities = { input_modalities: ['text', 'image'], output_modalities: ['image'] };

/** The upstream's model names are the IDs without `test/`. */
const models = [
  chatModel('test/chat', [{ provider: 'fake', model: 'chat' }]),
  media('embed', 'embeddings', { prompt: '1', completion: '0' }),
  media('voice', 'speech', { characters: '15' }, { output_modalities: ['audio'] }),
  media('ears', 'transcription', { minute: '0.006' }, { input_modalities: ['audio'] }),
  media('image', ['image_generation', 'image_edit'], { output_image: '0.04' }, imageModalities),
];
