import { requestIdForm } from '../../core/ids.ts';
import type { EverybodysLog, RequestLog } from '../../record/request-log.ts';
import type { RequestRecord } from '../../record/request-record.ts';
import { OnDatabase } from '../database.ts';
import { idBytes, recordOf } from './request-log-rows.ts';

export class SqlRequestLog extends OnDatabase implements RequestLog, EverybodysLog {
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
    return this.database.read
      .selectFrom('request_log')
      .selectAll()
      .where('request_id', '=', idBytes(requestId));
  }
}
