import { requestIdForm } from '../../core/ids.ts';
import type { EverybodysLog, RequestLog } from '../../record/request-log.ts';
import type { RequestRecord } from '../../record/request-record.ts';
import type { Database } from '../database.ts';
import { idBytes, recordOf } from './request-log-rows.ts';

export class SqlRequestLog implements RequestLog, EverybodysLog {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async find(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    if (!requestIdForm.test(requestId)) return undefined;
    const row = await this.#byId(requestId).where('tenant_id', '=', tenantId).executeTakeFirst();
    return row && recordOf(row);
  }

  async findAnybodys(requestId: string): Promise<RequestRecord | undefined> {
    if (!requestIdForm.test(requestId)) return undefined;
    const row = await this.#byId(requestId).executeTakeFirst();
    return row && recordOf(row);
  }

  #byId(requestId: string) {
    return this.#database.read
      .selectFrom('request_log')
      .selectAll()
      .where('request_id', '=', idBytes(requestId));
  }
}
