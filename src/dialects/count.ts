import type { DialectName } from '../config/provider-schema.ts';
import type { ChatAsk } from '../core/ask.ts';
import type { Target, UpstreamRequest } from './dialect.ts';

/** The parts of a request that decide which upstream counts its tokens. */
export type CountAsk = Pick<
  ChatAsk,
  'models' | 'preferences' | 'parameters' | 'addresses' | 'images' | 'ownAccount'
>;

/** One request whose tokens are to be counted, ready to be put to upstreams that count. */
export interface Count {
  readonly ask: CountAsk;
  /** Whether upstreams of `dialect` can be asked to count this request. */
  isFor(dialect: DialectName): boolean;
  /** Undefined when this upstream could not take the request as it is. */
  write(target: CountTarget): UpstreamRequest | undefined;
  /** Undefined for an answer that is neither a count nor a refusal of the request. */
  read(status: number, text: string): Counted | undefined;
}

export type CountTarget = Pick<Target, 'upstreamModel' | 'quirks'>;

/** A count as clients hear it, and the count before context editing, if there was any. */
export interface TokenCount {
  readonly input_tokens: number;
  readonly context_management?: { readonly original_input_tokens: number };
}

/** The count, or what is wrong with the request in the upstream's own sentence. */
export type Counted = TokenCount | { readonly fault: string };
