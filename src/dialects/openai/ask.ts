import type { Ask } from '../../core/ask.ts';
import { readChain, readPreferences } from './chat-request.ts';
import type { ChatBody } from './chat-schema.ts';

type Routed = Pick<ChatBody, 'model' | 'models' | 'provider' | 'route' | 'user'>;

/** What a request that is answered whole asks of the steps on its way. */
export function wholeAsk(operation: Ask['operation'], body: Routed, more: object): Ask {
  return {
    operation,
    models: readChain(body),
    preferences: readPreferences(body),
    stream: false,
    parameters: Object.keys(more),
    user: body.user ?? null,
  };
}
