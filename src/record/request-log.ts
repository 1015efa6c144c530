import type { RequestRecord } from './request-record.ts';

/** The store that reads of the log need. */
export interface RequestLog {
  /** Another tenant's request is as absent as none. */
  find(tenantId: string, requestId: string): Promise<RequestRecord | undefined>;
}

/** For the operator alone, who has an id and does not know whose request it was. */
export interface EverybodysLog {
  findAnybodys(requestId: string): Promise<RequestRecord | undefined>;
}
