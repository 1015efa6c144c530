import type { TenantDirectory } from '../../auth/tenant-directory.ts';
import { adminDocs } from '../../contract/admin.ts';
import type { OperatorReceiptObject } from '../../contract/receipt.ts';
import { notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { type AllTenantsLog, findInAnyProcess } from '../../records/customer-log.ts';
import { operatorReceipt } from '../../records/receipt.ts';
import type { RunningRequests } from '../../records/running-requests.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

interface OperatorReceiptDeps extends AllTenantsLog {
  readonly running: Pick<RunningRequests, 'find' | 'isOnlyHere'>;
  readonly directory: Pick<TenantDirectory, 'getTenant' | 'getKey'>;
  readonly creditsPerUsd: number;
}

const admin = routesFor({ access: 'admin' });

/** The receipt of any request, as `tollgate why` shows it. */
export function operatorReceiptRoutes(deps: OperatorReceiptDeps): Route[] {
  const { running, directory, creditsPerUsd } = deps;
  return [
    admin.get('/admin/v1/requests/:id', adminDocs.receipt, async (exchange) => {
      const found = await findInAnyProcess(toRequestId(exchange.param('id')), {
        record: (id) => deps.findForAnyTenant(id),
        running: (id) => running.find(id, null),
        isOnlyHere: (id) => running.isOnlyHere(id),
      });
      if (!found) throw notFound('There is no request with this ID.', 'id');
      if (!('charges' in found)) {
        throw notFound('This request is still running. Try again once it has ended.', 'id');
      }
      const { tenantId, keyId } = found;
      const tenant = await directory.getTenant(tenantId);
      const key = await directory.getKey(tenantId, keyId);
      const data: OperatorReceiptObject = {
        ...operatorReceipt(found, creditsPerUsd),
        tenant: { id: tenantId, name: tenant?.name ?? null },
        key: { id: keyId, name: key?.name ?? null, label: key?.label ?? null },
      };
      return json(exchange, { data });
    }),
  ];
}
