def right(edges, last):
    missing = dict.fromkeys(edges, 0)
    for targets in edges.values():
        for target in targets:
            missing[target] += 1
    order, ready = [], [last]
    while ready:
        node = ready.pop()
        order.append(node)
        for target in edges[node]:
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    return order


def wrong_depth_first(edges, last):
    order, todo = [], [last]
    while todo:
        node = todo.pop()
        if node not in order:
            order.append(node)
            todo += edges[node]
    return order


def wrong_breadth_first(edges, last):
    order = [last]
    for node in order:
        order += [target for target in edges[node] if target not in order]
    return order


def wrong_visits_again(edges, last):
    order = [last]
    for node in order:
        order += edges[node]
    return order
